"""What a settings page needs to know of each setting, and its value."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

# Where a value comes from; each takes precedence over those before it.
Source = Literal["default", "file", "environment", "flag"]
Kind = Literal["bool", "int", "float", "text", "choice", "list"]


class SettingInfo(BaseModel):
    """One setting. A secret's `value` is only ever None or "set"; `restart` says that a change
    takes effect when the engine starts again. Limits are inclusive."""

    model_config = ConfigDict(frozen=True)

    name: str
    kind: Kind
    doc: str
    default: Any
    value: Any
    source: Source
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    optional: bool = False
    restart: bool = False
    secret: bool = False
