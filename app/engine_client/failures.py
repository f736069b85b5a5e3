"""What the window itself finds wrong with the engine, in the engine's own form of a failure."""

from __future__ import annotations

from typing import Any

from app.i18n import tr
from app.i18n.catalogue import engine_sentence, has
from app.i18n.reasons import in_language
from engine.api.failure import Failure
from engine.api.sentences import fill

ENGINE_DIED = "window.engine_died"
ENGINE_NOT_STARTED = "window.engine_not_started"
ENGINE_UNREACHABLE = "window.engine_unreachable"
ENGINE_ANSWER = "window.engine_answer"


def failure(code: str, *, log: tuple[str, ...] = (), **data: Any) -> Failure:
    """A failure with a sentence of the window's own."""
    return Failure(
        code=code, sentence=tr(f"errors.{code}", **in_language(data)), data=data, log=log
    )


def sentence(problem: Failure) -> str:
    """The failure in the window's language where the catalogue has it, else as the engine said."""
    return said(problem.code, problem.data, problem.sentence)


def said(code: str, data: dict[str, Any], as_sent: str) -> str:
    """What the engine says with `code`, in the window's language where the catalogue has it."""
    key = f"errors.{code}"
    template = tr(key) if has(key) else engine_sentence(code)
    if template is None:
        return as_sent
    try:
        return fill(template, in_language(data))
    except (KeyError, IndexError, ValueError):
        return as_sent  # its data is not what the catalogue expects
