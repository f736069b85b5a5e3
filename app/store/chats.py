"""The chats themselves: every question and change that the window has about them.

Not thread-safe: one thread owns a `ChatStore` (see `app.store.owner`). Every change is written
whole or not at all, and is on disk when the method returns.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from app.store.branches import Node, shown_branch
from app.store.errors import StoreLocked
from app.store.exchange import WholeChat, WholeFile, WholeMessage, WholeSettings
from app.store.opening import open_database, translated
from app.store.records import (
    Attachment,
    Chat,
    ChatRow,
    ChatSettings,
    Draft,
    Folder,
    Found,
    MessageRow,
    MessageStatus,
    Opened,
    Preset,
    Role,
)
from app.store.words import query, snippet

MOST_FOUND = 200
_ROW = "id, title, updated, pinned, folder"
# A message and all below it.
_BELOW = (
    "WITH RECURSIVE below(id) AS (SELECT ? UNION ALL "
    "SELECT m.id FROM messages m JOIN below ON m.parent = below.id)"
)


class ChatStore:
    """`clock` gives the time in seconds; `alive` says whether a process with that id runs."""

    def __init__(
        self,
        path: Path,
        *,
        clock: Callable[[], float] = time.time,
        alive: Callable[[int], bool] | None = None,
    ) -> None:
        self._path = path
        self._clock = clock
        self._alive = alive or _is_alive
        self._database, opened = open_database(path)
        self.opened: Opened = replace(opened, interrupted=self._close_dead_streams())
        self._purge()

    def close(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._database.execute("PRAGMA optimize")
        self._database.close()

    # Chats

    def chats(self) -> list[ChatRow]:
        """All chats, the latest first."""
        rows = self._read(f"SELECT {_ROW} FROM chats WHERE deleted IS NULL ORDER BY updated DESC")
        return [_chat_row(row) for row in rows]

    def chat(self, chat: int) -> Chat | None:
        """The chat with its shown branch; None if there is none (any more)."""
        row = self._one(
            f"SELECT {_ROW}, settings, active_root FROM chats WHERE id = ? AND deleted IS NULL",
            chat,
        )
        if row is None:
            return None
        return Chat(_chat_row(row[:5]), _settings(row[5]), tuple(self._branch(chat, row[6])))

    def create_chat(self, title: str = "", settings: ChatSettings | None = None) -> int:
        now = self._clock()
        with self._change() as database:
            cursor = database.execute(
                "INSERT INTO chats(title, created, updated, settings) VALUES (?, ?, ?, ?)",
                (title, now, now, _settings_text(settings or ChatSettings())),
            )
        return _new_id(cursor)

    def rename(self, chat: int, title: str) -> None:
        self._write("UPDATE chats SET title = ? WHERE id = ?", title, chat)

    def pin(self, chat: int, pinned: bool) -> None:
        self._write("UPDATE chats SET pinned = ? WHERE id = ?", pinned, chat)

    def move(self, chat: int, folder: int | None) -> None:
        self._write("UPDATE chats SET folder = ? WHERE id = ?", folder, chat)

    def set_updated(self, chat: int, updated: float) -> None:
        """For samples of chats that are older than they are."""
        self._write("UPDATE chats SET updated = ? WHERE id = ?", updated, chat)

    def set_settings(self, chat: int, settings: ChatSettings) -> None:
        self._write("UPDATE chats SET settings = ? WHERE id = ?", _settings_text(settings), chat)

    def delete(self, chat: int) -> None:
        """Hides the chat; it can be restored until the next start."""
        self._write("UPDATE chats SET deleted = ? WHERE id = ?", self._clock(), chat)

    def restore(self, chat: int) -> None:
        self._write("UPDATE chats SET deleted = NULL WHERE id = ?", chat)

    def duplicate(self, chat: int, title: str) -> int:
        """A copy with every branch."""
        whole = self.whole(chat)
        assert whole is not None
        now = self._clock()
        changed = {"title": title, "created": now, "updated": now, "pinned": False}
        return self.add_whole(whole.model_copy(update=changed))

    def whole(self, chat: int) -> WholeChat | None:
        """Everything of a chat, for a file or a copy; None if there is none (any more)."""
        row = self._one(
            "SELECT c.title, c.created, c.updated, c.pinned, f.name, c.settings, c.active_root "
            "FROM chats c LEFT JOIN folders f ON f.id = c.folder "
            "WHERE c.id = ? AND c.deleted IS NULL",
            chat,
        )
        if row is None:
            return None
        attached = self._attached(chat)
        messages = self._read(
            "SELECT id, parent, active_child, role, content, reasoning, status, created, report, "
            "failure FROM messages WHERE chat = ? AND deleted IS NULL ORDER BY id",
            chat,
        )
        # What is stored here is taken as it is; what comes from a file is checked.
        return WholeChat.model_construct(
            title=row[0],
            created=row[1],
            updated=row[2],
            pinned=bool(row[3]),
            folder=row[4],
            settings=WholeSettings.model_construct(**json.loads(row[5])),
            active_root=row[6],
            messages=tuple(_whole_message(item, attached.get(item[0], ())) for item in messages),
        )

    def add_whole(self, chat: WholeChat) -> int:
        """Adds a chat from a file, or a copy; its ids are others here."""
        with self._change() as database:
            folder = _folder_named(database, chat.folder)
            cursor = database.execute(
                "INSERT INTO chats(title, created, updated, pinned, folder, settings) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (
                    chat.title, chat.created, chat.updated, chat.pinned, folder,
                    chat.settings.model_dump_json(),
                ),
            )  # fmt: skip
            key = _new_id(cursor)
            new_ids: dict[int | None, int] = {}
            for item in sorted(chat.messages, key=lambda message: message.id):
                # A parent comes before its children; who names another begins a branch.
                cursor = database.execute(
                    "INSERT INTO messages(chat, parent, role, content, reasoning, status, "
                    "created, report, failure) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        key, new_ids.get(item.parent), item.role, item.content, item.reasoning,
                        item.status, item.created, _json(item.report), _json(item.failure),
                    ),
                )  # fmt: skip
                new_ids[item.id] = _new_id(cursor)
                database.executemany(
                    "INSERT INTO attachments VALUES (?, ?, ?, ?, ?)",
                    [
                        (new_ids[item.id], position, file.name, file.text, file.tokens)
                        for position, file in enumerate(item.attachments)
                    ],
                )
            database.executemany(
                "UPDATE messages SET active_child = ? WHERE id = ?",
                [
                    (new_ids[item.active_child], new_ids[item.id])
                    for item in chat.messages
                    if item.active_child in new_ids
                ],
            )
            if chat.active_root in new_ids:
                database.execute(
                    "UPDATE chats SET active_root = ? WHERE id = ?",
                    (new_ids[chat.active_root], key),
                )
        return key

    # Folders

    def folders(self) -> list[Folder]:
        return [Folder(*row) for row in self._read("SELECT id, name FROM folders ORDER BY name")]

    def create_folder(self, name: str) -> int:
        with self._change() as database:
            return _new_id(database.execute("INSERT INTO folders(name) VALUES (?)", (name,)))

    def rename_folder(self, folder: int, name: str) -> None:
        self._write("UPDATE folders SET name = ? WHERE id = ?", name, folder)

    def delete_folder(self, folder: int) -> None:
        """Its chats stay, outside of any folder."""
        self._write("DELETE FROM folders WHERE id = ?", folder)

    # Messages

    def add_message(
        self,
        chat: int,
        role: Role,
        content: str,
        *,
        parent: int | None,
        attachments: Sequence[Attachment] = (),
        status: MessageStatus = "done",
    ) -> int:
        """Adds a version below `parent` and shows it."""
        now = self._clock()
        with self._change() as database:
            cursor = database.execute(
                "INSERT INTO messages(chat, parent, role, content, status, owner, created) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (chat, parent, role, content, status, os.getpid(), now),
            )
            message = _new_id(cursor)
            database.executemany(
                "INSERT INTO attachments VALUES (?, ?, ?, ?, ?)",
                [
                    (message, position, item.name, item.text, item.tokens)
                    for position, item in enumerate(attachments)
                ],
            )
            _show(database, chat, parent, message)
            database.execute("UPDATE chats SET updated = ? WHERE id = ?", (now, chat))
        return message

    def save_stream(self, message: int, content: str, reasoning: str | None) -> None:
        """Keeps what has been written so far of an answer."""
        self._write(
            "UPDATE messages SET content = ?, reasoning = ? WHERE id = ? AND status = 'streaming'",
            content,
            reasoning,
            message,
        )

    def finish(
        self,
        message: int,
        content: str,
        reasoning: str | None,
        *,
        status: MessageStatus = "done",
        report: dict[str, Any] | None = None,
        failure: dict[str, Any] | None = None,
    ) -> None:
        """Ends an answer with its report, or with what made it fail."""
        self._write(
            "UPDATE messages SET content = ?, reasoning = ?, status = ?, report = ?, failure = ? "
            "WHERE id = ?",
            content,
            reasoning,
            status,
            _json(report),
            _json(failure),
            message,
        )

    def reports(self, most: int = 500) -> list[dict[str, Any]]:
        """What the latest answers of all chats told about their turns, the newest first."""
        rows = self._read(
            "SELECT report FROM messages WHERE report IS NOT NULL AND deleted IS NULL "
            "ORDER BY id DESC LIMIT ?",
            most,
        )
        return [json.loads(row[0]) for row in rows]

    def edit(self, message: int, content: str) -> None:
        """Replaces the text in place; to branch, add a message beside it."""
        self._write("UPDATE messages SET content = ? WHERE id = ?", content, message)

    def delete_message(self, message: int) -> None:
        """Hides a message and all that follows it, on every branch; until the next start it can
        be restored."""
        self._write(
            f"{_BELOW} UPDATE messages SET deleted = ? "
            "WHERE id IN (SELECT id FROM below) AND deleted IS NULL",
            message,
            self._clock(),
        )

    def restore_message(self, message: int) -> None:
        """Brings back what the last `delete_message` of this message hid."""
        self._write(
            f"{_BELOW} UPDATE messages SET deleted = NULL WHERE id IN (SELECT id FROM below) "
            "AND deleted = (SELECT deleted FROM messages WHERE id = ?)",
            message,
            message,
        )

    def reopen(self, message: int) -> None:
        """Marks an answer as being written again, to continue it."""
        self._write(
            "UPDATE messages SET status = 'streaming', owner = ?, failure = NULL WHERE id = ?",
            os.getpid(),
            message,
        )

    def show_version(self, message: int, step: int) -> None:
        """Shows the version `step` places after (or before) `message`, with all below it."""
        with self._change() as database:
            chat, parent = database.execute(
                "SELECT chat, parent FROM messages WHERE id = ?", (message,)
            ).fetchone()
            versions = [
                row[0]
                for row in database.execute(
                    "SELECT id FROM messages "
                    "WHERE chat = ? AND parent IS ? AND deleted IS NULL ORDER BY id",
                    (chat, parent),
                )
            ]
            wanted = versions.index(message) + step
            if 0 <= wanted < len(versions):
                _show(database, chat, parent, versions[wanted])

    def reveal(self, message: int) -> None:
        """Makes every choice on the way to `message`, so that its branch is shown."""
        with self._change() as database:
            current: int | None = message
            while current is not None:
                row = database.execute(
                    "SELECT chat, parent FROM messages WHERE id = ?", (current,)
                ).fetchone()
                if row is None:
                    return
                _show(database, row[0], row[1], current)
                current = row[1]

    # Search

    def search(self, typed: str) -> list[Found]:
        """Chats by title, then messages, the latest first; every typed word has to occur."""
        words = query(typed)
        if words is None:
            return []
        titles = self._read(
            "SELECT c.id, c.title, c.updated FROM title_words w JOIN chats c ON c.id = w.rowid "
            "WHERE title_words MATCH ? AND c.deleted IS NULL ORDER BY c.updated DESC LIMIT ?",
            words,
            MOST_FOUND,
        )
        # The newest matches by id: no ranking, which would look at every match.
        matches = self._read(
            "SELECT m.chat, c.title, m.created, m.id, m.content FROM "
            "(SELECT rowid FROM message_words WHERE message_words MATCH ? "
            " ORDER BY rowid DESC LIMIT ?) w "
            "JOIN messages m ON m.id = w.rowid JOIN chats c ON c.id = m.chat "
            "WHERE c.deleted IS NULL AND m.deleted IS NULL ORDER BY m.id DESC",
            words,
            MOST_FOUND,
        )
        by_title = [
            Found(chat, title, updated, None, *snippet(title, typed))
            for chat, title, updated in titles
        ]
        by_message = [
            Found(chat, title, created, message, *snippet(content, typed))
            for chat, title, created, message, content in matches
        ]
        return by_title + by_message

    # Drafts and presets

    def draft(self, chat: int | None) -> Draft:
        """What was typed and not sent; `chat` None is the chat that does not exist yet."""
        row = self._one("SELECT text, attachments FROM drafts WHERE chat = ?", chat or 0)
        if row is None:
            return Draft()
        return Draft(row[0], tuple(Attachment(**item) for item in json.loads(row[1])))

    def save_draft(self, chat: int | None, draft: Draft) -> None:
        if draft == Draft():
            self._write("DELETE FROM drafts WHERE chat = ?", chat or 0)
            return
        self._write(
            "INSERT OR REPLACE INTO drafts(chat, text, attachments) VALUES (?, ?, ?)",
            chat or 0,
            draft.text,
            json.dumps([asdict(item) for item in draft.attachments]),
        )

    def presets(self) -> list[Preset]:
        rows = self._read("SELECT id, name, settings FROM presets ORDER BY name")
        return [Preset(row[0], row[1], _settings(row[2])) for row in rows]

    def save_preset(self, name: str, settings: ChatSettings) -> None:
        """A preset of the same name is replaced."""
        self._write(
            "INSERT INTO presets(name, settings) VALUES (?, ?) "
            "ON CONFLICT(name) DO UPDATE SET settings = excluded.settings",
            name,
            _settings_text(settings),
        )

    def delete_preset(self, preset: int) -> None:
        self._write("DELETE FROM presets WHERE id = ?", preset)

    # Inside

    def _branch(self, chat: int, active_root: int | None) -> Iterator[MessageRow]:
        nodes = [
            Node(*row)
            for row in self._read(
                "SELECT id, parent, active_child FROM messages WHERE chat = ? AND deleted IS NULL",
                chat,
            )
        ]
        shown = {item.id: item for item in shown_branch(nodes, active_root)}
        attached = self._attached(chat)
        for row in self._read(
            "SELECT id, chat, parent, role, content, reasoning, status, created, report, failure "
            "FROM messages WHERE chat = ? ORDER BY id",
            chat,
        ):
            if (place := shown.get(row[0])) is None:
                continue
            yield MessageRow(
                *row[:8],
                report=json.loads(row[8]) if row[8] else None,
                failure=json.loads(row[9]) if row[9] else None,
                attachments=tuple(attached.get(row[0], ())),
                version=place.version,
                versions=place.versions,
            )

    def _attached(self, chat: int) -> dict[int, list[Attachment]]:
        attached: dict[int, list[Attachment]] = {}
        for message, name, text, tokens in self._read(
            "SELECT a.message, a.name, a.text, a.tokens FROM attachments a "
            "JOIN messages m ON m.id = a.message WHERE m.chat = ? ORDER BY a.message, a.position",
            chat,
        ):
            attached.setdefault(message, []).append(Attachment(name, text, tokens))
        return attached

    def _close_dead_streams(self) -> int:
        """Marks answers whose window no longer runs; another living window keeps its own."""
        rows = self._read("SELECT id, owner FROM messages WHERE status = 'streaming'")
        dead = [
            (message,)
            for message, owner in rows
            if owner is None or owner == os.getpid() or not self._alive(owner)
        ]
        if dead:
            with self._change() as database:
                database.executemany(
                    "UPDATE messages SET status = 'interrupted' WHERE id = ?", dead
                )
        return len(dead)

    def _purge(self) -> None:
        """What was deleted before this start goes for good; a locked file only puts that off."""
        with contextlib.suppress(StoreLocked), self._change() as database:
            database.execute("DELETE FROM chats WHERE deleted IS NOT NULL")
            database.execute("DELETE FROM messages WHERE deleted IS NOT NULL")
            database.execute(
                "DELETE FROM drafts WHERE chat <> 0 AND chat NOT IN (SELECT id FROM chats)"
            )

    def _read(self, statement: str, *values: Any) -> list[Any]:
        with translated(self._path):
            return self._database.execute(statement, values).fetchall()

    def _one(self, statement: str, *values: Any) -> Any:
        with translated(self._path):
            return self._database.execute(statement, values).fetchone()

    def _write(self, statement: str, *values: Any) -> None:
        with self._change() as database:
            database.execute(statement, values)

    @contextlib.contextmanager
    def _change(self) -> Generator[sqlite3.Connection]:
        with translated(self._path):
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise


def _show(database: sqlite3.Connection, chat: int, parent: int | None, message: int) -> None:
    if parent is None:
        database.execute("UPDATE chats SET active_root = ? WHERE id = ?", (message, chat))
    else:
        database.execute("UPDATE messages SET active_child = ? WHERE id = ?", (message, parent))


def _folder_named(database: sqlite3.Connection, name: str | None) -> int | None:
    if name is None:
        return None
    row = database.execute("SELECT id FROM folders WHERE name = ?", (name,)).fetchone()
    if row is not None:
        return row[0]
    return _new_id(database.execute("INSERT INTO folders(name) VALUES (?)", (name,)))


def _whole_message(row: Sequence[Any], attached: Sequence[Attachment]) -> WholeMessage:
    return WholeMessage.model_construct(
        id=row[0],
        parent=row[1],
        active_child=row[2],
        role=row[3],
        content=row[4],
        reasoning=row[5],
        status="interrupted" if row[6] == "streaming" else row[6],
        created=row[7],
        report=json.loads(row[8]) if row[8] else None,
        failure=json.loads(row[9]) if row[9] else None,
        attachments=tuple(WholeFile(**asdict(item)) for item in attached),
    )


def _json(value: dict[str, Any] | None) -> str | None:
    return json.dumps(value) if value else None


def _chat_row(row: Sequence[Any]) -> ChatRow:
    return ChatRow(row[0], row[1], row[2], bool(row[3]), row[4])


def _settings(text: str) -> ChatSettings:
    return ChatSettings(**json.loads(text))


def _settings_text(settings: ChatSettings) -> str:
    return json.dumps(asdict(settings))


def _new_id(cursor: sqlite3.Cursor) -> int:
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def _is_alive(process: int) -> bool:
    import psutil

    return psutil.pid_exists(process)
