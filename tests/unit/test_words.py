"""Every error that can reach a user has a sentence, and every sentence an error."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path
from string import Formatter

import engine
from engine.errors import NativeError, TwofoldError
from engine.words import SENTENCES, sentence

NATIVE = Path(__file__).parents[2] / "native"
# `throw Error("code", {{"fact", ...}, ...})`, over several lines.
_THROW = re.compile(r'Error\(\s*"(?P<code>[a-z_.]+)"(?P<facts>[^;]*)\)', re.DOTALL)
_FACT = re.compile(r'\{\s*"([a-z_]+)"\s*,')


def _native_errors() -> dict[str, set[str]]:
    errors: dict[str, set[str]] = {}
    for source in NATIVE.rglob("*.cpp"):
        for found in _THROW.finditer(source.read_text()):
            facts = set(_FACT.findall(found["facts"]))
            known = errors.setdefault(found["code"], facts)
            errors[found["code"]] = known & facts
    return errors


def _subclasses(kind: type[TwofoldError]) -> set[type[TwofoldError]]:
    return {kind}.union(*(_subclasses(below) for below in kind.__subclasses__()))


def test_every_python_error_has_a_sentence() -> None:
    for module in pkgutil.walk_packages(engine.__path__, "engine."):
        if not module.name.endswith(("__main__", "_native")):
            importlib.import_module(module.name)
    owned = {
        kind.code for kind in _subclasses(TwofoldError) if kind.__module__.startswith("engine.")
    }
    assert owned - {"error"} - SENTENCES.keys() - _abstract() == set()


def _abstract() -> set[str]:
    """Codes of classes that only group others: those that subclasses replace."""
    return {kind.code for kind in _subclasses(TwofoldError) if kind.__subclasses__() and kind.code}


def test_every_native_error_has_a_sentence_made_of_its_own_facts() -> None:
    errors = _native_errors()
    assert len(errors) > 15
    for code, facts in errors.items():
        assert code in SENTENCES, code
        wanted = {name for _, name, _, _ in Formatter().parse(SENTENCES[code]) if name}
        assert wanted <= facts, code


def test_a_sentence_takes_the_facts_of_its_error() -> None:
    error = NativeError("disk.short_read", {"path": "p", "offset": 1, "wanted": 5, "got": 2})
    assert "5 bytes were expected at byte 1" in sentence(error)


def test_an_unknown_code_is_shown_with_its_facts() -> None:
    assert sentence(NativeError("odd.thing", {"size": 3})) == "odd.thing(size=3)"
