"""Every refusal of the library has its sentence, and every sentence its refusal."""

from __future__ import annotations

from engine.errors import TwofoldError
from engine.library import errors
from engine.library.errors import DemoAbsent
from engine.library.words import SENTENCES


def test_codes_and_sentences_match() -> None:
    classes = [one for one in vars(errors).values() if isinstance(one, type)]
    codes = {one.code for one in classes if issubclass(one, TwofoldError)} - {"error"}
    assert codes - {DemoAbsent.code} == set(SENTENCES)
