"""Causes inside sentences, as systems, libraries and the engine tell them in English."""

from __future__ import annotations

import errno
import os
import re
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any

from app.i18n.catalogue import language

# What an error tells of a cause or of a thing, and no name, path or number.
FIELDS = frozenset(
    ("reason", "why", "cause", "hint", "what", "detail", "how", "limit", "problem", "kind", "token")
)
_ENGLISH = re.compile(r"[A-Za-z]{2,}")
_NUMBER = r"-?\d[\d.,e+-]*"
_HANGUL = re.compile(r"[가-힣]")
_NUMBERED = re.compile(r"\[(?:Errno|WinError) (-?\d+)\] (.*)", re.DOTALL)


def reason(words: str) -> str:
    """A cause in the window's language. What nobody has translated is named as what the log has:
    the card's details show it as it came."""
    table = _table(language())
    if table is None or not _ENGLISH.search(words) or _HANGUL.search(words):
        return words
    if known := _known(words, table):
        return known
    if numbered := _NUMBERED.match(words):
        text = numbered[2].split(": '")[0]
        return _known(text, table) or table.by_number.get(int(numbered[1]), table.other)
    return words if _is_name(words) else table.other


def in_language(data: dict[str, Any]) -> dict[str, Any]:
    """An error's facts with its causes in the window's language."""
    return {
        name: reason(value) if name in FIELDS and isinstance(value, str) else value
        for name, value in data.items()
    }


class _Table:
    def __init__(self, told: dict[str, dict[str, str]]) -> None:
        numbers = {getattr(errno, name): words for name, words in told["errno"].items()
                   if hasattr(errno, name)}  # fmt: skip
        self.by_number = numbers
        self.phrases = {os.strerror(number): words for number, words in numbers.items()}
        self.patterns: list[tuple[re.Pattern[str], str]] = []
        for english, words in told["phrases"].items():
            if "{" in english:
                self.patterns.append((_pattern(english), words))
            else:
                self.phrases[english] = words
        self.other = told["other"]["words"]


@lru_cache
def _table(name: str) -> _Table | None:
    path = Path(__file__).with_name(f"reasons.{name}.toml")
    return _Table(tomllib.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def _pattern(english: str) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)\}", english)
    # Every other part is a placeholder's name; `n` stands for a number.
    made = [
        (f"(?P<{part}>{_NUMBER if part == 'n' else '.*?'})" if at % 2 else re.escape(part))
        for at, part in enumerate(parts)
    ]
    return re.compile("".join(made), re.DOTALL)


def _known(words: str, table: _Table) -> str | None:
    if words in table.phrases:
        return table.phrases[words]
    for pattern, told in table.patterns:
        if match := pattern.fullmatch(words):
            return told.format(**match.groupdict())
    return None


def _is_name(words: str) -> bool:
    """A path, an option or an identifier rather than words of a language."""
    return " " not in words and not words.isalpha()
