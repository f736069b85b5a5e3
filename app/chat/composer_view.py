"""Where a message is written: text, files, how many tokens that is, and the send button."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QEvent, QMimeData, QObject, QSize, Qt, Signal
from PySide6.QtGui import (
    QDragEnterEvent,
    QDragLeaveEvent,
    QDragMoveEvent,
    QDropEvent,
    QInputMethodEvent,
    QKeyEvent,
)
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPlainTextEdit, QVBoxLayout, QWidget

from app.chat.rows import file_chip
from app.i18n import tr
from app.shell.widgets import button, clear_layout, icon_button, label, restyle, row
from app.store.records import Attachment
from app.theme.icons import icon
from app.theme.theme import theme
from app.theme.tokens import TYPE

MOST_LINES = 10


class ComposerText(QPlainTextEdit):
    """Enter sends, Shift+Enter breaks the line; what is pasted or dropped is text or files."""

    sent = Signal()
    files_given = Signal(list)
    scroll_key = Signal(int)
    escaped = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("kind", "composer-text")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setPlaceholderText(tr("chat.ask"))
        self.setAccessibleName(tr("chat.message"))
        self.setTabChangesFocus(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._composing = False
        self.document().documentLayout().documentSizeChanged.connect(self._fit)
        self._fit()

    def insertFromMimeData(self, source: QMimeData) -> None:
        """Pasted HTML is text; pasted files are attached."""
        if paths := files_in(source):
            self.files_given.emit(paths)
        elif source.hasText():
            self.insertPlainText(source.text())

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        return source.hasText() or bool(files_in(source))

    def inputMethodEvent(self, event: QInputMethodEvent) -> None:
        self._composing = bool(event.preeditString())
        super().inputMethodEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        plain = not event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        # While a Korean syllable is being composed, Enter belongs to the input method.
        if enter and plain and not self._composing:
            self.sent.emit()
        elif event.key() in (Qt.Key.Key_PageUp, Qt.Key.Key_PageDown):
            self.scroll_key.emit(event.key())
        elif event.key() == Qt.Key.Key_Escape and not self._composing:
            self.escaped.emit()
        else:
            super().keyPressEvent(event)

    def changeEvent(self, e: QEvent) -> None:
        super().changeEvent(e)
        if e.type() == QEvent.Type.FontChange:
            self._fit()

    def _fit(self) -> None:
        """As high as its lines, up to MOST_LINES."""
        spacing = self.fontMetrics().lineSpacing()
        lines = max(1, min(MOST_LINES, round(self.document().size().height())))
        self.setFixedHeight(lines * spacing + 14)
        # A single line never scrolls, and its bar must not take room from the words.
        policy = Qt.ScrollBarPolicy
        self.setVerticalScrollBarPolicy(
            policy.ScrollBarAsNeeded if lines == MOST_LINES else policy.ScrollBarAlwaysOff
        )


class ComposerView(QFrame):
    """Signals: `sent`, `stopped`, `files_given` (list of paths), `file_removed` (its place),
    `attach_asked`, `edit_cancelled`."""

    sent = Signal()
    stopped = Signal()
    files_given = Signal(list)
    file_removed = Signal(int)
    attach_asked = Signal()
    edit_cancelled = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("kind", "composer")
        self.setAcceptDrops(True)
        self.text = ComposerText()
        self.text.setAcceptDrops(False)  # the whole composer takes what is dropped
        self.text.sent.connect(self.sent)
        self.text.files_given.connect(self.files_given)
        self.text.installEventFilter(self)
        self.text.escaped.connect(self._on_escape)

        self._editing = QWidget()
        cancel = button(tr("common.cancel"), "link")
        cancel.clicked.connect(self.edit_cancelled)
        self._editing_words = label("", "small")
        self._editing.setLayout(row(self._editing_words, None, cancel))
        self._editing.hide()

        self._files = QWidget()
        self._files_layout = QVBoxLayout(self._files)
        self._files_layout.setContentsMargins(4, 4, 4, 0)
        self._files_layout.setSpacing(4)
        self._files.hide()

        self.attach = icon_button("paperclip", tr("chat.attach"))
        self.attach.clicked.connect(self.attach_asked)
        self.tokens = label("", "small", wrap=True)
        self.send = icon_button("arrow-up", tr("chat.send"), token="on_prefill")
        self.send.setProperty("kind", "send")
        self.send.clicked.connect(self._on_button)
        self.send.setFixedSize(36, 36)
        self._busy = False

        layout = QVBoxLayout(self)
        layout.setContentsMargins(12, 8, 8, 8)
        layout.setSpacing(4)
        layout.addWidget(self._editing)
        layout.addWidget(self._files)
        layout.addWidget(self.text)
        foot = QHBoxLayout()
        foot.setSpacing(8)
        foot.addWidget(self.attach)
        foot.addWidget(self.tokens, 1)
        foot.addWidget(self.send)
        layout.addLayout(foot)

    def set_busy(self, busy: bool) -> None:
        """While an answer is written, the same button stops it."""
        self._busy = busy
        words = tr("actions.stop") if busy else tr("chat.send")
        self.send.setProperty("kind", "stop" if busy else "send")
        self.send.setIcon(icon("square", "on_decode") if busy else icon("arrow-up", "on_prefill"))
        self.send.setToolTip(words)
        self.send.setAccessibleName(words)
        restyle(self.send)

    def set_can_send(self, can: bool) -> None:
        self.send.setEnabled(can or self._busy)

    def show_files(self, files: Sequence[Attachment], reading: Sequence[str]) -> None:
        """The attached files, and the names of those that are still being read."""
        clear_layout(self._files_layout)
        for number, file in enumerate(files):
            remove = icon_button("x", tr("chat.remove_file", name=file.name), size=14)
            remove.clicked.connect(lambda _=False, number=number: self.file_removed.emit(number))
            self._files_layout.addWidget(
                file_chip(file, remove=remove), 0, Qt.AlignmentFlag.AlignLeft
            )
        for name in reading:
            self._files_layout.addWidget(label(tr("chat.reading_file", name=name), "small"))
        self._files.setVisible(bool(files or reading))

    def show_tokens(self, words: str, *, warn: bool) -> None:
        self.tokens.setText(words)
        self.tokens.setProperty("kind", "warn" if warn else "small")
        self.tokens.setToolTip(words)
        restyle(self.tokens)

    def show_editing(self, words: str) -> None:
        """Says that an old message is being changed; empty when it is not."""
        self._editing_words.setText(words)
        self._editing.setVisible(bool(words))

    def refresh_theme(self) -> None:
        font = theme().font(TYPE.transcript)
        self.text.setFont(font)

    def _on_button(self) -> None:
        (self.stopped if self._busy else self.sent).emit()

    def _on_escape(self) -> None:
        if not self._editing.isHidden():
            self.edit_cancelled.emit()
        elif self._busy:
            self.stopped.emit()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.FocusIn, QEvent.Type.FocusOut):
            self.setProperty("focusWithin", event.type() == QEvent.Type.FocusIn)
            restyle(self)
        return super().eventFilter(watched, event)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if files_in(event.mimeData()) or event.mimeData().hasText():
            event.acceptProposedAction()
            self._show_dropping(True)

    def dragMoveEvent(self, event: QDragMoveEvent) -> None:
        event.acceptProposedAction()

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:
        super().dragLeaveEvent(event)
        self._show_dropping(False)

    def dropEvent(self, event: QDropEvent) -> None:
        self._show_dropping(False)
        self.text.insertFromMimeData(event.mimeData())
        event.acceptProposedAction()

    def _show_dropping(self, dropping: bool) -> None:
        self.setProperty("dropping", dropping)
        restyle(self)

    def sizeHint(self) -> QSize:
        return QSize(480, super().sizeHint().height())


def files_in(source: QMimeData) -> list[Path]:
    """The local files that were pasted or dropped."""
    return [
        Path(url.toLocalFile())
        for url in source.urls()
        if url.isLocalFile() and Path(url.toLocalFile()).is_file()
    ]
