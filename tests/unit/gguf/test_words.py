"""Every refusal has its sentence, and every sentence its refusal."""

from __future__ import annotations

from engine.gguf import errors
from engine.gguf.errors import GgufError
from engine.gguf.words import SENTENCES


def test_codes_and_sentences_match() -> None:
    classes = [one for one in vars(errors).values() if isinstance(one, type)]
    codes = {one.code for one in classes if issubclass(one, GgufError)}
    assert codes == set(SENTENCES)
