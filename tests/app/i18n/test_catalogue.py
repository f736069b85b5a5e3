"""Both languages say everything, with the same facts, and nothing is left unsaid or unused."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest

import app
from app.engine_client.failures import sentence
from app.i18n import LANGUAGES, numbers, set_language, tr
from app.i18n.catalogue import Language, catalogue, engine_sentences
from engine.api.failure import Failure
from engine.words import SENTENCES

APP = Path(app.__file__ or "").parent
LITERAL = re.compile(r'\btr\(\s*"([a-z_.0-9]+)"')
MADE = re.compile(r'\btr\(\s*f"([a-z_.]+)\.\{')


def placeholders(words: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(words) if name}


def sources() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in APP.rglob("*.py"))


@pytest.mark.parametrize("name", LANGUAGES)
def test_every_language_has_every_entry_with_the_same_placeholders(name: Language) -> None:
    english, other = catalogue("en"), catalogue(name)
    assert english.keys() == other.keys()
    for key, words in english.items():
        assert placeholders(words) == placeholders(other[key]), key
        assert other[key].strip(), key


def test_every_entry_that_the_window_asks_for_is_there() -> None:
    english = catalogue("en")
    text = sources()
    asked = set(LITERAL.findall(text))
    assert len(asked) > 100
    assert not asked - english.keys()
    for prefix in set(MADE.findall(text)):
        assert any(key.startswith(f"{prefix}.") for key in english), prefix


def test_korean_is_written_in_korean() -> None:
    allowed = re.compile(
        r"app\.name|chat\.version|paths\.odp|.*\.(top_p|min_p|top_k)|.*\.language_en"
    )
    for key, words in catalogue("ko").items():
        has_words = re.search(r"[a-z]{2}", re.sub(r"\{\w+\}", "", words))
        if has_words and not allowed.fullmatch(key):
            assert re.search(r"[가-힣]", words), (key, words)


def test_no_exclamation_marks_and_no_stray_spaces() -> None:
    for name in LANGUAGES:
        for key, words in catalogue(name).items():
            assert "!" not in words, key
            assert words == words.strip(), key


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.421, "0.42 s"), (6.8914, "6.9 s"), (42.4, "42 s"), (185, "3 min 5 s"), (7260, "2 h 1 min")],
)
def test_times_have_sensible_digits(value: float, shown: str) -> None:
    assert numbers.seconds(value) == shown


def test_numbers_have_units() -> None:
    assert numbers.size(14_230_000_000) == "14.2 GB"
    assert numbers.disk_rate(5_100_000_000) == "5.1 GB/s"
    assert numbers.rate(31.2) == "31 tok/s"
    assert numbers.about(2.6) == "about 3 s"
    assert numbers.about(111) == "about 2 min" and numbers.about(3700) == "about 1 h 1 min"
    assert numbers.count(8412) == "8,412"
    set_language("ko")
    assert numbers.about(2.6) == "약 3초"
    assert tr("chat.of", done="1", total="2") == "2토큰 중 1"


# What only the command line and other clients of the server meet stays in English.
# What only the command line says.
NOT_IN_THE_WINDOW = ("bench.", "client.", "demo.")


def test_what_the_engine_says_is_there_in_korean_with_the_same_facts() -> None:
    korean = engine_sentences("ko")
    in_window = {code for code in SENTENCES if not code.startswith(NOT_IN_THE_WINDOW)}
    assert not in_window - korean.keys(), "write these in app/i18n/engine.ko.toml"
    assert not korean.keys() - SENTENCES.keys(), "no such code any more"
    for code, words in korean.items():
        assert placeholders(words) <= placeholders(SENTENCES[code]), code
        assert re.search(r"[가-힣]", words), code


def test_an_engines_failure_is_said_in_the_windows_language() -> None:
    problem = Failure(code="chat.empty", sentence="There is nothing to answer.")
    assert sentence(problem) == "There is nothing to answer."
    set_language("ko")
    assert sentence(problem).startswith("대화에 메시지가 없어")
    unknown = Failure(code="never.seen", sentence="Something new.")
    assert sentence(unknown) == "Something new."
    strange = Failure(code="memory.out", sentence="As the engine said.", data={})
    assert sentence(strange) == "As the engine said."
