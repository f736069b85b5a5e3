"""Turns what a person types into the search field into a query that FTS5 accepts."""

from __future__ import annotations

import re

_WORD = re.compile(r"[\w]+", re.UNICODE)


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
    first = pattern.search(text)
    start = max(0, first.start() - before) if first else 0
    # One character for one, so that the matches stay where they are.
    part = re.sub(r"\s", " ", text[start : start + length])
    lead = "… " if start else ""
    spans = tuple(
        (match.start() + len(lead), match.end() + len(lead)) for match in pattern.finditer(part)
    )
    return lead + part, spans
