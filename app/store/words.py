"""Turns what a person types into the search field into a query that FTS5 accepts."""

from __future__ import annotations

import re

_WORD = re.compile(r"[\w]+", re.UNICODE)
# Markdown's marks; shown in a snippet they would be noise.
_MARKS = re.compile(r"\*\*|~~|`+|^[ \t]*(?:#{1,6}|>|[-*+])[ \t]+", re.MULTILINE)
_NEAR = 500  # characters around a match that its snippet is made of


def query(typed: str) -> str | None:
    """Every word has to occur, each as the start of a word; None if nothing can be looked for."""
    words = _WORD.findall(typed)
    return " ".join(f'"{word}"*' for word in words) or None


def snippet(
    text: str, typed: str, *, before: int = 30, length: int = 120
) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The text around the first match on one line, and where the words are in it."""
    words = sorted({re.escape(word) for word in _WORD.findall(typed)}, key=len, reverse=True)
    if not words:
        return text[:length], ()
    pattern = re.compile(rf"\b(?:{'|'.join(words)})", re.IGNORECASE)
    found = pattern.search(text)
    skipped = max(0, found.start() - _NEAR) if found else 0
    near = _MARKS.sub("", text[skipped : skipped + 2 * _NEAR])
    first = pattern.search(near)
    start = max(0, first.start() - before) if first else 0
    # One character for one, so that the matches stay where they are.
    part = re.sub(r"\s", " ", near[start : start + length])
    lead = "… " if skipped + start else ""
    spans = tuple(
        (match.start() + len(lead), match.end() + len(lead)) for match in pattern.finditer(part)
    )
    return lead + part, spans
