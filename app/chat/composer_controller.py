"""Keeps what is being written: drafts for each chat, attached files, the count of tokens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtWidgets import QFileDialog

from app.chat.attachments import read
from app.chat.composer_view import ComposerView
from app.chat.conversation import ANSWER_RESERVE, estimated_tokens, with_attachments
from app.i18n import numbers, tr
from app.i18n.reasons import in_language
from app.shell.context import Context
from app.store.records import Attachment, Draft
from engine.api.engine import TokenCount
from engine.errors import TwofoldError

SAVE_MS = 400
COUNT_MS = 350


class ComposerController(QObject):
    """`sent` comes with the text and its files; the composer is empty then."""

    sent = Signal(str, list)
    edited = Signal(int, str)
    # Tokens of what is written here, as far as known, for the context meter.
    counted = Signal(int)

    def __init__(self, context: Context, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self.view = ComposerView()
        self._chat: int | None = None
        self._files: list[Attachment] = []
        self._reading: list[str] = []
        self._editing: int | None = None
        self._before_edit = Draft()
        self._used = 0
        self._available = 0
        self._busy = False
        self._tokens: int | None = None
        self._loading = False
        self._save = self._timer(SAVE_MS, self._save_draft)
        self._count = self._timer(COUNT_MS, self._count_tokens)
        view = self.view
        view.text.textChanged.connect(self._on_text)
        view.sent.connect(self._on_send)
        view.files_given.connect(self.attach)
        view.file_removed.connect(self._remove_file)
        view.attach_asked.connect(self._choose_files)
        view.edit_cancelled.connect(self.cancel_edit)
        self._show_state()

    @property
    def draft(self) -> Draft:
        return Draft(self.view.text.toPlainText(), tuple(self._files))

    def open_chat(self, chat: int | None) -> None:
        """Saves the draft of the chat that was open and shows the other's."""
        self.flush()
        self._editing = None
        self.view.show_editing("")
        self._chat = chat
        self._show_draft(Draft())

        def loaded(draft: Draft) -> None:
            # What was typed in the meantime is newer than what was stored.
            if self._chat == chat and self.draft == Draft():
                self._show_draft(draft)

        self._context.store.ask(lambda store: store.draft(chat), loaded)

    def give_back(self, text: str, files: list[Attachment]) -> None:
        """What was sent could not be kept: it stands here again, before what was typed since."""
        now = self.draft
        words = f"{text}\n{now.text}" if now.text else text
        self._show_draft(Draft(words, (*files, *now.attachments)))
        self._save.start()

    def flush(self) -> None:
        """Writes a draft that waits to be written."""
        if self._save.isActive():
            self._save_draft()

    def chat_created(self, chat: int) -> None:
        """What is written from now on belongs to this chat."""
        self._chat = chat

    def set_budget(self, used: int, available: int) -> None:
        """Tokens that the conversation takes of the context."""
        if (used, available) == (self._used, self._available):
            return
        self._used, self._available = used, available
        self._show_state()
        if available and self._tokens is None and self.draft != Draft():
            self._count.start()

    def set_busy(self, busy: bool) -> None:
        self._busy = busy
        self.view.set_busy(busy)
        self._show_state()

    def edit(self, message: int, content: str, words: str) -> None:
        """Puts an old message into the composer; sending it is `edited` instead of `sent`."""
        if self._editing is None:
            self.flush()
            self._before_edit = self.draft
        self._editing = message
        self._show_draft(Draft(content))
        self.view.show_editing(words)
        self.view.text.setFocus()
        self.view.text.moveCursor(self.view.text.textCursor().MoveOperation.End)

    def cancel_edit(self) -> None:
        if self._editing is not None:
            self._editing = None
            self.view.show_editing("")
            self._show_draft(self._before_edit)

    def attach(self, paths: list[Path]) -> None:
        """Reads the files in the background; what cannot be read is said."""
        for path in paths:
            self._reading.append(path.name)
            chat = self._chat

            def done(file: Attachment, name: str = path.name, chat: int | None = chat) -> None:
                self._reading.remove(name)
                if chat == self._chat:
                    self._files.append(file)
                    self._changed()

            def failed(error: Exception, name: str = path.name) -> None:
                self._reading.remove(name)
                self._changed()
                if not isinstance(error, TwofoldError):
                    raise error
                self._context.notify(tr(f"errors.{error.code}", **in_language(error.data)))

            self._context.background.run(lambda path=path: read(path), done, failed)
        self._show_files()

    def _choose_files(self) -> None:
        paths, _ = QFileDialog.getOpenFileNames(self.view, tr("chat.attach"))
        self.attach([Path(path) for path in paths])

    def _remove_file(self, number: int) -> None:
        del self._files[number]
        self._changed()
        self.view.text.setFocus()

    def _on_text(self) -> None:
        if not self._loading:
            self._changed(files=False)

    def _changed(self, *, files: bool = True) -> None:
        self._tokens = None
        if self._editing is None:
            self._save.start()
        self._count.start()
        if files:
            self._show_files()
        self._show_state()

    def _show_files(self) -> None:
        self.view.show_files(self._files, self._reading)

    def _show_draft(self, draft: Draft) -> None:
        self._loading = True
        self.view.text.setPlainText(draft.text)
        self._loading = False
        self._files = list(draft.attachments)
        self._tokens = None
        self._show_files()
        self._show_state()
        if draft != Draft():
            self._count.start()

    def _save_draft(self) -> None:
        self._save.stop()
        chat, draft = self._chat, self.draft
        self._context.store.ask(lambda store: store.save_draft(chat, draft))

    def _on_send(self) -> None:
        if self._busy or self._reading or self.draft == Draft():
            return
        text = self.view.text.toPlainText()
        if not text.strip() and not self._files:
            return
        if self._editing is not None:
            message, self._editing = self._editing, None
            self.view.show_editing("")
            self._show_draft(self._before_edit)
            self.edited.emit(message, text)
            return
        files = list(self._files)
        self._save.stop()
        self._show_draft(Draft())
        chat = self._chat
        self._context.store.ask(lambda store: store.save_draft(chat, Draft()))
        self.sent.emit(text, files)

    # Tokens

    def _count_tokens(self) -> None:
        draft = self.draft
        if draft == Draft() or self._busy:
            return
        if not self._available:
            self._show_state()
            return

        def counted(answer: TokenCount) -> None:
            if self.draft == draft:
                self._tokens = answer.tokens
                self._show_state()

        for number, file in enumerate(self._files):
            if file.tokens is None:
                self._count_file(number, file)
        text = with_attachments(draft.text, draft.attachments)
        self._context.engine.count(counted, text=text)

    def _count_file(self, number: int, file: Attachment) -> None:
        def counted(answer: TokenCount) -> None:
            if number < len(self._files) and self._files[number] == file:
                self._files[number] = replace(file, tokens=answer.tokens)
                self._show_files()
                self._save.start()

        self._context.engine.count(counted, text=file.text)

    def _show_state(self) -> None:
        draft = self.draft
        is_empty = not draft.text.strip() and not draft.attachments
        self.view.set_can_send(not is_empty and not self._reading)
        if is_empty:
            self.view.show_tokens("", warn=False)
            self.counted.emit(0)
            return
        known = self._tokens is not None
        tokens = (
            self._tokens
            if self._tokens is not None
            else estimated_tokens(with_attachments(draft.text, draft.attachments))
        )
        over = self._used + tokens + ANSWER_RESERVE - self._available
        self.counted.emit(tokens)
        if self._available and over > 0:
            words = tr("chat.too_long", tokens=numbers.count(tokens), over=numbers.count(over))
            self.view.show_tokens(words, warn=True)
        elif known:
            self.view.show_tokens(tr("chat.tokens", count=numbers.count(tokens)), warn=False)
        else:
            self.view.show_tokens(tr("chat.about_tokens", count=numbers.count(tokens)), warn=False)

    def _timer(self, interval: int, called: object) -> QTimer:
        timer = QTimer(self)
        timer.setSingleShot(True)
        timer.setInterval(interval)
        timer.timeout.connect(called)
        return timer
