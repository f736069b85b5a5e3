"""Chats to and from files: one as Markdown to read, one or all as JSON that can be read back."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QFileDialog, QWidget

from app.chat.conversation import as_markdown
from app.i18n import numbers, tr
from app.i18n.reasons import in_language
from app.i18n.reasons import reason as cause
from app.shell.context import Context
from app.store.chats import ChatStore
from app.store.exchange import ChatsFile, WholeChat, read_chats
from app.store.records import Chat
from engine.errors import TwofoldError

MARKDOWN, JSON = "Markdown (*.md)", "JSON (*.json)"
LARGEST_BYTES = 1_000_000_000
# The store's thread has answers to keep meanwhile: it is asked for a few chats at a time.
AT_ONCE = 50


class ChatFiles(QObject):
    """`imported` comes when there are chats that were not there before."""

    imported = Signal()

    def __init__(self, context: Context, window: QWidget, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._store = context.store
        self._window = window

    def choose_export(self, chat: int, title: str) -> None:
        """Asks where to; the file's ending says as what."""
        name = "".join(c if c.isalnum() or c in " -_" else "_" for c in title).strip() or "chat"
        chosen, kind = QFileDialog.getSaveFileName(
            self._window, tr("sidebar.export"), f"{name}.md", f"{MARKDOWN};;{JSON}"
        )
        if chosen:
            path = Path(chosen)
            if path.suffix not in (".md", ".json"):
                path = path.with_name(path.name + (".json" if kind == JSON else ".md"))
            self.export(chat, path)

    def choose_export_all(self) -> None:
        chosen, _ = QFileDialog.getSaveFileName(
            self._window, tr("sidebar.export_all"), "chats.json", JSON
        )
        if chosen:
            self.export_all(Path(chosen))

    def choose_import(self) -> None:
        chosen, _ = QFileDialog.getOpenFileName(self._window, tr("sidebar.import"), "", JSON)
        if chosen:
            self.import_from(Path(chosen))

    def export(self, chat: int, path: Path) -> None:
        """Markdown holds the branch that is shown, JSON every one."""
        if path.suffix == ".json":
            self._store.ask(
                lambda store: store.whole(chat),
                lambda whole: self._write_chats([whole] if whole else [], path),
            )
            return

        def show(stored: Chat | None) -> None:
            if stored is not None:
                names = {"user": tr("chat.you"), "assistant": tr("app.name")}
                title = stored.row.title or tr("chat.untitled")
                self._write(as_markdown(title, stored.messages, names).encode(), path, 1)

        self._store.ask(lambda store: store.chat(chat), show)

    def export_all(self, path: Path) -> None:
        def listed(chats: list[int]) -> None:
            self._collect(chats, [], path)

        self._store.ask(lambda store: [row.id for row in store.chats()], listed)

    def import_from(self, path: Path) -> None:
        """Adds the file's chats to those that are there."""

        def work() -> ChatsFile:
            if path.stat().st_size > LARGEST_BYTES:
                raise OSError(0, tr("errors.chats_file.too_large"))
            return read_chats(path.read_bytes())

        def failed(error: Exception) -> None:
            if isinstance(error, TwofoldError):
                words = tr(f"errors.{error.code}", path=str(path), **in_language(error.data))
            elif isinstance(error, OSError):
                reason = error.strerror or str(error)
                words = tr("errors.chats_file.unreadable", path=str(path), reason=cause(reason))
            else:
                raise error
            self._context.notify(words)

        self._context.background.run(work, lambda found: self._add(list(found.chats), 0), failed)

    # Inside

    def _collect(self, left: list[int], found: list[WholeChat], path: Path) -> None:
        some, rest = left[:AT_ONCE], left[AT_ONCE:]

        def work(store: ChatStore) -> list[WholeChat]:
            return [whole for chat in some if (whole := store.whole(chat)) is not None]

        def done(chats: list[WholeChat]) -> None:
            found.extend(chats)
            if rest:
                self._collect(rest, found, path)
            else:
                self._write_chats(found, path)

        self._store.ask(work, done)

    def _write_chats(self, chats: list[WholeChat], path: Path) -> None:
        file = ChatsFile.model_construct(format="twofold-chats", version=1, chats=tuple(chats))
        self._write(file, path, len(chats))

    def _write(self, content: bytes | ChatsFile, path: Path, count: int) -> None:
        def work() -> None:
            data = content if isinstance(content, bytes) else content.model_dump_json(indent=1)
            # Whole or not at all: an older export is not lost to a full disk.
            new = path.with_name(path.name + ".new")
            try:
                new.write_bytes(data if isinstance(data, bytes) else data.encode())
                new.replace(path)
            finally:
                new.unlink(missing_ok=True)

        def failed(error: Exception) -> None:
            if not isinstance(error, OSError):
                raise error
            reason = error.strerror or str(error)
            self._context.notify(tr("errors.export.failed", path=str(path), reason=cause(reason)))

        words = tr("sidebar.exported", count=numbers.count(count), path=str(path))
        self._context.background.run(work, lambda _: self._context.notify(words), failed)

    def _add(self, chats: list[WholeChat], added: int) -> None:
        some, rest = chats[:AT_ONCE], chats[AT_ONCE:]

        def work(store: ChatStore) -> None:
            for chat in some:
                store.add_whole(chat)

        def done(_: None) -> None:
            self.imported.emit()
            if rest:
                self._add(rest, added + len(some))
            else:
                count = numbers.count(added + len(some))
                self._context.notify(tr("sidebar.imported", count=count))

        self._store.ask(work, done)
