"""A sentence names the program as it is called here, and speaks of no set-up where none can run."""

from __future__ import annotations

import re
import sys
import tokenize
from pathlib import Path

import pytest

from app.i18n.catalogue import engine_sentence, engine_sentences, set_language
from engine.api.sentences import fill
from engine.errors import TwofoldError
from engine.program import PACKAGED, called, sentence_for
from engine.words import SENTENCES, sentence

ROOT = Path(__file__).parents[2]
OF_THE_SET_UP = re.compile(r"\.venv|set-up|sets everything up|Run \./twofold again")


@pytest.fixture
def packaged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)


class LibraryLacks(TwofoldError):
    code = "library.missing"


def test_in_a_checkout_it_is_called_with_its_folder() -> None:
    assert called("run ./twofold doctor") == "run ./twofold doctor"
    assert fill("./twofold chat {x}", {"x": 1}) == "./twofold chat 1"
    assert "./twofold" in sentence(LibraryLacks(wanted="1"))


@pytest.mark.usefixtures("packaged")
def test_in_a_package_it_is_called_by_its_name_and_installed_again() -> None:
    assert fill("./twofold chat {x}", {"x": 1}) == "twofold chat 1"
    assert sentence(LibraryLacks(wanted="1")).endswith("install Twofold again.")


@pytest.mark.usefixtures("packaged")
def test_no_sentence_of_the_package_speaks_of_the_set_up() -> None:
    for code in SENTENCES:
        said = sentence_for(code, SENTENCES)
        assert said is not None
        assert code.endswith(PACKAGED) or not OF_THE_SET_UP.search(said), code


@pytest.mark.usefixtures("packaged")
def test_korean_has_the_sentences_of_the_package_too() -> None:
    set_language("ko")
    try:
        assert "다시 설치" in (engine_sentence("library.missing") or "")
    finally:
        set_language("en")
    for code, said in engine_sentences("ko").items():
        replaced = code + PACKAGED in SENTENCES
        assert replaced or ".venv" not in said, code


def test_a_sentence_of_the_package_takes_the_place_of_another() -> None:
    for code in SENTENCES:
        if code.endswith(PACKAGED):
            assert code.removesuffix(PACKAGED) in SENTENCES


def test_what_is_printed_outside_of_sentences_asks_what_the_program_is_called() -> None:
    """`words` modules and catalogues are filled; elsewhere a text with the name is put through
    `called`, stands in a comment or docstring, or is for a checkout alone."""
    found: list[str] = []
    for file in sorted((ROOT / "engine").rglob("*.py")):
        if file.stem.endswith("words") or file.name in ("program.py", "main.py"):
            continue
        with file.open("rb") as opened:
            tokens = [*tokenize.tokenize(opened.readline)]
        text = file.read_text(encoding="utf-8")
        for token in tokens:
            if token.type != tokenize.STRING or "./twofold" not in token.string:
                continue
            if token.string.startswith('"""'):
                continue
            before = text.splitlines()[max(0, token.start[0] - 4) : token.end[0] + 2]
            if "called(" not in "\n".join(before):
                found.append(f"{file.relative_to(ROOT)}:{token.start[0]}")
    assert not found
