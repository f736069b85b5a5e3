"""Reads the catalogues, one TOML file a language, and looks words up in the one in force."""

from __future__ import annotations

import locale
import os
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, cast, get_args

from engine.program import called, sentence_for

Language = Literal["en", "ko"]
LANGUAGES: tuple[Language, ...] = get_args(Language)

_current: Language = "en"


@lru_cache(maxsize=len(LANGUAGES))
def catalogue(name: Language) -> dict[str, str]:
    """All entries of one language; nested tables become dotted ids."""
    path = Path(__file__).with_name(f"{name}.toml")
    return dict(_flat(tomllib.loads(called(path.read_text(encoding="utf-8")))))


def _flat(table: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    entries: list[tuple[str, str]] = []
    for key, value in table.items():
        if isinstance(value, dict):
            entries += _flat(cast("dict[str, Any]", value), f"{prefix}{key}.")
        else:
            entries.append((prefix + key, str(value)))
    return entries


def language() -> Language:
    return _current


def set_language(name: Language) -> None:
    global _current
    _current = name


def system_language() -> Language:
    """The system's language where there is a catalogue for it, else English."""
    named = os.environ.get("LC_ALL") or os.environ.get("LC_MESSAGES") or os.environ.get("LANG")
    code = (named or locale.getlocale()[0] or "en")[:2].lower()
    return code if code in LANGUAGES else "en"


def tr(key: str, **data: Any) -> str:
    """The words for `key` with `data` put in. An unknown key is a mistake and raises KeyError."""
    words = catalogue(_current)[key]
    return words.format(**data) if data else words


@lru_cache(maxsize=len(LANGUAGES))
def engine_sentences(name: Language) -> dict[str, str]:
    """The engine's sentences in a language, by code. It sends them in English itself."""
    path = Path(__file__).with_name(f"engine.{name}.toml")
    if not path.exists():
        return {}
    return tomllib.loads(path.read_text(encoding="utf-8"))


def engine_sentence(code: str) -> str | None:
    """The template for an engine's code, None where the engine's own words are to be shown."""
    return sentence_for(code, engine_sentences(_current))


def has(key: str) -> bool:
    return key in catalogue(_current)
