"""Chats as a file that can be read back: every branch, attached files and settings."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from app.store.errors import ChatsFileNewer, ChatsFileUnreadable
from app.store.records import Role
from engine.api.failure import Failure
from engine.api.sampling import SamplingSettings
from engine.api.turn import PathSetting, TurnReport

VERSION = 1


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class WholeFile(_Part):
    name: str
    text: str
    tokens: int | None = None


class WholeSettings(_Part):
    system_prompt: str = ""
    sampling: dict[str, Any] = {}
    path: PathSetting = "auto"

    @field_validator("sampling")
    @classmethod
    def _known(cls, value: dict[str, Any]) -> dict[str, Any]:
        SamplingSettings.model_validate(value)
        return value


class WholeMessage(_Part):
    """`parent` and `active_child` are ids within the chat. What a report or a failure does not
    hold to is left out: the words of a message are worth more."""

    id: int
    parent: int | None = None
    active_child: int | None = None
    role: Role
    content: str
    reasoning: str | None = None
    status: Literal["done", "interrupted", "failed"] = "done"
    created: float = 0.0
    report: dict[str, Any] | None = None
    failure: dict[str, Any] | None = None
    attachments: tuple[WholeFile, ...] = ()

    @field_validator("report")
    @classmethod
    def _report(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        try:
            message = {"role": "assistant", "content": ""}
            TurnReport.model_validate({**(value or {}), "message": message})
        except ValidationError:
            return None
        return value

    @field_validator("failure")
    @classmethod
    def _failure(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        try:
            Failure.model_validate(value)
        except ValidationError:
            return None
        return value


class WholeChat(_Part):
    title: str = ""
    created: float = 0.0
    updated: float = 0.0
    pinned: bool = False
    folder: str | None = None
    settings: WholeSettings = WholeSettings()
    active_root: int | None = None
    messages: tuple[WholeMessage, ...] = ()


class ChatsFile(_Part):
    format: Literal["twofold-chats"] = "twofold-chats"
    version: int = Field(default=VERSION, ge=1)
    chats: tuple[WholeChat, ...]


def read_chats(data: bytes) -> ChatsFile:
    """Raises ChatsFileUnreadable, or ChatsFileNewer for one of a later version."""
    try:
        found = ChatsFile.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        reason = f"{place}: {first['msg']}" if place else first["msg"]
        raise ChatsFileUnreadable(reason=reason) from error
    if found.version > VERSION:
        raise ChatsFileNewer(version=found.version, known=VERSION)
    return found
