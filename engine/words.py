"""Turns typed errors into sentences: what happened, what it means, what to do."""

from __future__ import annotations

from engine.errors import TwofoldError

# One entry a code; `{name}` takes the error's data. Kept in one place for translation.
SENTENCES: dict[str, str] = {}


def sentence(error: TwofoldError) -> str:
    """The sentence for `error`; an unknown code falls back to the code and its facts."""
    template = SENTENCES.get(error.code)
    return template.format(**error.data) if template else str(error)
