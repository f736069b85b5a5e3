"""The sidebar's list: chats under their groups' names, or what a search has found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QPersistentModelIndex, Qt, Signal

from app.chat.grouping import Group
from app.i18n import language, numbers, tr
from app.store.records import ChatRow, Found

_Index = QModelIndex | QPersistentModelIndex


@dataclass(frozen=True)
class GroupLine:
    """A group's name; `collapsed` is None where a group cannot be folded."""

    words: str
    folder: int | None = None
    collapsed: bool | None = None


Line = GroupLine | ChatRow | Found

LINE = Qt.ItemDataRole.UserRole


class SidebarModel(QAbstractListModel):
    """`renamed` is sent with the line and its new name."""

    renamed = Signal(object, str)

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[Line] = []
        self._rows: dict[int, int] = {}

    def set_lines(self, lines: Sequence[Line], rows: dict[int, int]) -> None:
        """`rows` says in which line a chat stands."""
        self.beginResetModel()
        self._lines = list(lines)
        self._rows = rows
        self.endResetModel()

    def line(self, index: _Index) -> Line | None:
        return self._lines[index.row()] if index.isValid() else None

    def index_of(self, chat: int) -> QModelIndex:
        row = self._rows.get(chat)
        return self.index(row) if row is not None else QModelIndex()

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008  # Qt's signature
        return 0 if parent.isValid() else len(self._lines)

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        line = self.line(index)
        if line is None:
            return None
        if role == LINE:
            return line
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            return words_of(line)
        if role == Qt.ItemDataRole.EditRole:
            return line.words if isinstance(line, GroupLine) else line.title
        if role == Qt.ItemDataRole.ToolTipRole and not isinstance(line, GroupLine):
            return words_of(line)
        return None

    def setData(self, index: _Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        line = self.line(index)
        name = str(value).strip()
        if line is None or role != Qt.ItemDataRole.EditRole or not name:
            return False
        self.renamed.emit(line, name)
        return True

    def flags(self, index: _Index) -> Qt.ItemFlag:
        line = self.line(index)
        if isinstance(line, GroupLine) and line.collapsed is None:
            return Qt.ItemFlag.ItemIsEnabled
        flags = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
        return flags if isinstance(line, Found) else flags | Qt.ItemFlag.ItemIsEditable


def words_of(line: Line) -> str:
    match line:
        case GroupLine():
            if line.collapsed is None:
                return line.words
            return f"{line.words}, {tr('chat.collapsed' if line.collapsed else 'chat.expanded')}"
        case ChatRow():
            return line.title or tr("chat.untitled")
        case Found():
            title = line.title or tr("chat.untitled")
            return title if line.message is None else f"{title}: {line.snippet}"


def lines_of(
    groups: Sequence[Group], collapsed: frozenset[int]
) -> tuple[list[Line], dict[int, int]]:
    """All lines, and where each chat stands. May run on any thread."""
    lines: list[Line] = []
    rows: dict[int, int] = {}
    for group in groups:
        folder = group.folder.id if group.folder is not None else None
        is_collapsed = folder in collapsed if folder is not None else None
        lines.append(GroupLine(group_words(group), folder, is_collapsed))
        if is_collapsed:
            continue
        for chat in group.chats:
            rows[chat.id] = len(lines)
            lines.append(chat)
    return lines, rows


def found_lines(found: Sequence[Found]) -> list[Line]:
    words = (
        tr("search.nothing")
        if not found
        else tr("search.one" if len(found) == 1 else "search.many", count=numbers.count(len(found)))
    )
    return [GroupLine(words), *found]


def group_words(group: Group) -> str:
    if group.folder is not None:
        return group.folder.name
    if group.date is not None:
        return month_words(group.date)
    return tr(f"groups.{group.key}")


def month_words(date: datetime) -> str:
    if language() == "ko":
        return f"{date.year}년 {date.month}월"
    names = (
        "January", "February", "March", "April", "May", "June", "July", "August", "September",
        "October", "November", "December",
    )  # fmt: skip
    return f"{names[date.month - 1]} {date.year}"
