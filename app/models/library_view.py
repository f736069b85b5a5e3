"""The library's layout: its folder, bringing models in, and what is there."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QLineEdit, QVBoxLayout, QWidget

from app.i18n import tr
from app.models.row import RowCard
from app.models.trouble import Trouble
from app.shell.flow import Flow
from app.shell.panel import Panel
from app.shell.widgets import button, clear_layout, clearable, column, label


class LibraryView(QWidget):
    """`dropped` with the path of a file that somebody let fall here."""

    dropped = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.setAcceptDrops(True)
        self.folder = label("", "secondary", wrap=True)
        self.bring_in = button(tr("models.bring_in"), icon_name="folder-input")
        self.move_library = button(tr("models.move"), icon_name="hard-drive")
        self._warnings = QVBoxLayout()
        self._warnings.setSpacing(4)
        self._question = QVBoxLayout()
        self.trouble = Trouble()
        self.filter = QLineEdit()
        self.filter.setPlaceholderText(tr("models.filter"))
        self.filter.setAccessibleName(tr("models.filter"))
        clearable(self.filter)
        self.filter.hide()
        self.decoders = RowCard(tr("models.kind_decoder"))
        self.others = RowCard(tr("models.alone"))
        self.nothing = label(tr("models.no_match"), "secondary", wrap=True)
        self.empty = QWidget()
        self.discover = button(tr("models.discover"), "primary")
        words = label(tr("models.library_empty"), "secondary", wrap=True)
        buttons = Flow(spacing=8)
        buttons.addWidget(self.discover)
        empty = column(words, spacing=12)
        empty.addLayout(buttons)
        self.empty.setLayout(empty)
        actions = Flow(spacing=8)
        actions.addWidget(self.bring_in)
        actions.addWidget(self.move_library)
        layout = column(self.folder, spacing=12)
        layout.addLayout(actions)
        layout.addLayout(self._warnings)
        layout.addLayout(self._question)
        for widget in (
            self.trouble, self.filter, self.empty, self.decoders, self.others, self.nothing,
        ):  # fmt: skip
            layout.addWidget(widget)
        layout.addStretch(1)
        self.setLayout(layout)
        self.empty.hide()
        self.nothing.hide()

    def warn(self, sentences: list[str]) -> None:
        clear_layout(self._warnings)
        for words in sentences:
            self._warnings.addWidget(label(words, "warn", wrap=True))

    def ask(self, panel: Panel) -> None:
        """Shows a question above the models, instead of an earlier one."""
        clear_layout(self._question)
        self._question.addWidget(panel)
        panel.buttons[0].setFocus(Qt.FocusReason.OtherFocusReason)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if any(url.isLocalFile() for url in event.mimeData().urls()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        for url in event.mimeData().urls():
            if url.isLocalFile():
                self.dropped.emit(Path(url.toLocalFile()))
                return
