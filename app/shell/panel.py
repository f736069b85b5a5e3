"""A question below a row: what will happen, the answers as buttons, and a way out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QPushButton

from app.i18n import tr
from app.shell.flow import Flow
from app.shell.widgets import ButtonKind, button, column, label


@dataclass(frozen=True)
class Choice:
    words: str
    act: Callable[[], None]
    kind: ButtonKind = "plain"


class Panel(QFrame):
    """Gone after any answer. Escape is the way out, too."""

    def __init__(self, sentences: Sequence[str], choices: Sequence[Choice]) -> None:
        super().__init__()
        self.setProperty("kind", "notice-card")
        layout = column(spacing=8)
        for words in sentences:
            layout.addWidget(label(words, wrap=True))
        self.buttons: list[QPushButton] = []
        line = Flow(spacing=8)
        for choice in [*choices, Choice(tr("common.cancel"), lambda: None)]:
            made = button(choice.words, choice.kind)
            made.clicked.connect(partial(self._chosen, choice))
            self.buttons.append(made)
            line.addWidget(made)
        layout.addLayout(line)
        layout.setContentsMargins(16, 12, 16, 12)
        self.setLayout(layout)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.close_panel()
        else:
            super().keyPressEvent(event)

    def close_panel(self) -> None:
        self.hide()
        self.deleteLater()

    def _chosen(self, choice: Choice) -> None:
        self.close_panel()
        choice.act()
