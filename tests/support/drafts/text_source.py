"""A made-up language: words of a small lexicon follow each other; now and then a span is quoted.

Within a word the next letter is nearly certain, between words it is a choice of four; so drafts
have something to get right and something to get wrong.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tests.support.drafts.shapes import FIRST_LETTER, QUOTE, VOCAB

_WORDS = 40
_SUCCESSORS = (0.55, 0.25, 0.15, 0.05)


def write_text(length: int, seed: int) -> NDArray[np.int32]:
    """`length` tokens. The language is always the same; `seed` chooses the text."""
    language = np.random.default_rng(7)
    words = [
        language.integers(FIRST_LETTER, VOCAB, language.integers(2, 6)).tolist()
        for _ in range(_WORDS)
    ]
    followers = [language.permutation(_WORDS)[: len(_SUCCESSORS)].tolist() for _ in range(_WORDS)]
    random = np.random.default_rng(seed)
    text: list[int] = []
    word = 0
    while len(text) < length:
        if len(text) > 64 and random.random() < 0.03:
            start = len(text) - int(random.integers(16, 40))
            text += [QUOTE, *text[start : start + 10], QUOTE]
        word = followers[word][random.choice(len(_SUCCESSORS), p=_SUCCESSORS)]
        text += words[word]
    return np.array(text[:length], np.int32)
