"""The sidebar's groups: pinned chats, folders, then days that lie further and further back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.store.records import ChatRow, Folder


@dataclass(frozen=True)
class Group:
    """`key` is an id of the catalogue, or "month" with `date`, or "folder" with `folder`."""

    key: str
    chats: tuple[ChatRow, ...]
    date: datetime | None = None
    folder: Folder | None = None


def group_chats(chats: Sequence[ChatRow], folders: Sequence[Folder], now: datetime) -> list[Group]:
    """`chats` come with the latest first and stay so. An empty folder is a group, too."""
    pinned: list[ChatRow] = []
    in_folders: dict[int, list[ChatRow]] = {folder.id: [] for folder in folders}
    dated: dict[str, list[ChatRow]] = {}
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    limits = (
        (today.timestamp(), "today"),
        ((today - timedelta(days=1)).timestamp(), "yesterday"),
        ((today - timedelta(days=7)).timestamp(), "week"),
        ((today - timedelta(days=30)).timestamp(), "month30"),
    )
    months: dict[tuple[int, int], list[ChatRow]] = {}
    for chat in chats:
        if chat.pinned:
            pinned.append(chat)
        elif chat.folder in in_folders:
            in_folders[chat.folder].append(chat)
        else:
            key = next((name for limit, name in limits if chat.updated >= limit), None)
            if key is not None:
                dated.setdefault(key, []).append(chat)
            else:
                day = datetime.fromtimestamp(chat.updated)
                months.setdefault((day.year, day.month), []).append(chat)
    groups = [Group("pinned", tuple(pinned))] if pinned else []
    groups += [Group("folder", tuple(in_folders[item.id]), folder=item) for item in folders]
    groups += [Group(name, tuple(dated[name])) for _, name in limits if name in dated]
    groups += [
        Group("month", tuple(rows), date=datetime(year, month, 1))
        for (year, month), rows in sorted(months.items(), reverse=True)
    ]
    return groups
