"""Every refusal of the hub and of downloads has its sentence, and every sentence its refusal."""

from __future__ import annotations

from engine.downloads import errors
from engine.downloads.runner import Unexpected
from engine.downloads.words import SENTENCES
from engine.errors import TwofoldError


def test_codes_and_sentences_match() -> None:
    classes = [one for one in vars(errors).values() if isinstance(one, type)]
    codes = {one.code for one in classes if issubclass(one, TwofoldError)} - {"error"}
    assert codes | {Unexpected.code} == set(SENTENCES)
