"""What the store hands out: plain rows, safe to pass between threads."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Role = Literal["user", "assistant"]
# streaming: being written by a living window. interrupted: its window or engine ended first.
MessageStatus = Literal["done", "streaming", "interrupted", "failed"]


@dataclass(frozen=True, slots=True)
class ChatRow:
    """One line of the sidebar; times in seconds since the epoch."""

    id: int
    title: str
    updated: float
    pinned: bool
    folder: int | None


@dataclass(frozen=True)
class Folder:
    id: int
    name: str


@dataclass(frozen=True)
class Attachment:
    """A file's text, as it was when attached. `tokens` is None until the engine counted them."""

    name: str
    text: str
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A message on the shown branch; `version` k of `versions` that stand in its place."""

    id: int
    chat: int
    parent: int | None
    role: Role
    content: str
    reasoning: str | None
    status: MessageStatus
    created: float
    report: dict[str, Any] | None = None
    failure: dict[str, Any] | None = None
    attachments: tuple[Attachment, ...] = ()
    version: int = 1
    versions: int = 1


@dataclass(frozen=True)
class ChatSettings:
    """A chat's own way to be answered; `sampling` holds only what differs from the defaults."""

    system_prompt: str = ""
    sampling: dict[str, Any] = field(default_factory=dict[str, Any])
    path: str = "auto"


@dataclass(frozen=True)
class Chat:
    """A chat with the messages of the branch that it shows."""

    row: ChatRow
    settings: ChatSettings
    messages: tuple[MessageRow, ...]


@dataclass(frozen=True)
class Draft:
    text: str = ""
    attachments: tuple[Attachment, ...] = ()


@dataclass(frozen=True)
class Preset:
    id: int
    name: str
    settings: ChatSettings


@dataclass(frozen=True, slots=True)
class Found:
    """A message, or a chat by its title (`message` None), that matches a search.

    `snippet` is the text around the match; `spans` are the matches in it, as (start, end).
    """

    chat: int
    title: str
    updated: float
    message: int | None
    snippet: str
    spans: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Repair:
    """A damaged database was moved to `moved_to`; `chats` and `messages` were saved from it."""

    moved_to: Path
    chats: int
    messages: int


@dataclass(frozen=True)
class Opened:
    """How opening went: what was repaired, which backup was made, how many streams had ended."""

    repair: Repair | None = None
    backup: Path | None = None
    interrupted: int = 0
