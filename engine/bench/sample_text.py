"""A real text of a given length in tokens, from the document that ships with the program."""

from __future__ import annotations

from typing import Protocol

from engine.assets import asset

_DOCUMENT = "long_document.md"
_SPARE = 16  # tokens; cutting a text may join or split the last ones


class Tokenizer(Protocol):
    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]: ...
    def piece(self, token: int) -> bytes: ...


def tokenize(model: Tokenizer, text: str) -> list[int]:
    return model.tokenize(text, add_special=True, parse_special=False)


def sample_text(model: Tokenizer, tokens: int) -> str:
    """The document, repeated as often as needed and cut to at least `tokens` tokens, and hardly
    more."""
    document = asset(_DOCUMENT).read_text(encoding="utf-8").strip() + "\n\n"
    once = model.tokenize(document, add_special=False, parse_special=False)
    wanted = tokens + _SPARE
    long = document * (wanted // len(once) + 1)
    while True:
        pieces = model.tokenize(long, add_special=False, parse_special=False)[:wanted]
        text = b"".join(map(model.piece, pieces)).decode("utf-8", "ignore")
        if len(tokenize(model, text)) >= tokens:
            return text
        wanted += _SPARE
        long += document
