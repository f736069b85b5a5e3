"""A failure as it crosses a boundary: a code to search for, a sentence to read, and the facts."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class Failure(BaseModel):
    """`log` are the last lines that a process wrote before it died."""

    model_config = ConfigDict(frozen=True)

    code: str
    sentence: str
    data: dict[str, Any] = {}
    log: tuple[str, ...] = ()
