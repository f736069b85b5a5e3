"""What clients send to Twofold's own routes, and the smaller answers."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from engine.api.messages import Message, Text
from engine.api.settings import SettingInfo


class _Given(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Sent(BaseModel):
    model_config = ConfigDict(frozen=True)


class CountRequest(_Given):
    """Either a text, or a conversation as the model's template renders it."""

    text: Text | None = None
    messages: list[Message] | None = Field(default=None, min_length=1)


class TokenizeRequest(_Given):
    text: Text


class Tokens(_Sent):
    tokens: list[int]


class CancelRequest(_Given):
    """The request to stop; without an id, all of them and a load that is under way."""

    id: Text | None = Field(default=None, max_length=100)


class Cancelled(_Sent):
    cancelled: int


class SettingChanges(_Given):
    """New values by name, as `server.port`; None takes a setting back to its default."""

    values: dict[str, Any]


class SettingsAnswer(_Sent):
    """All settings, and the names of changed ones that take effect at the next start."""

    settings: list[SettingInfo]
    restart: list[str] = []


class LogLines(_Sent):
    """JSON lines, oldest first."""

    lines: list[str]
