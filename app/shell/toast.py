"""A sentence at the window's foot that goes by itself, with one button to undo what it tells.

It takes room of its own below the page: whatever lies over a page hides what somebody wants.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication, QFrame, QHBoxLayout, QSizePolicy, QWidget

from app.i18n import tr
from app.shell.announce import announce
from app.shell.widgets import button, icon_button, label
from app.theme.tokens import COLUMN_WIDTH, SCROLL_BAR, SPACE

SHOWN_MS = 8000


class Toast(QWidget):
    """A new message replaces the one that is shown."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        card = QFrame()
        card.setProperty("kind", "card")
        card.setMaximumWidth(COLUMN_WIDTH + 2 * SPACE.around)
        card.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.setProperty("kind", "page")
        outer = QHBoxLayout(self)
        outer.setContentsMargins(24, 0, 24 + SCROLL_BAR, 16)  # below the composer, as wide
        outer.addWidget(card)
        self._label = label("", wrap=True)
        self._action = button("", "link")
        self._action.clicked.connect(self._act)
        self._close = icon_button("x", tr("common.close"), size=16)
        self._close.clicked.connect(self.hide)
        layout = QHBoxLayout(card)
        layout.setContentsMargins(16, 8, 8, 8)
        layout.setSpacing(12)
        layout.addWidget(self._label, 1)
        layout.addWidget(self._action)
        layout.addWidget(self._close)
        self._callback: Callable[[], None] | None = None
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self._go)
        self.hide()

    @property
    def sentence(self) -> str:
        return self._label.text()

    def say(
        self, sentence: str, action: str = "", callback: Callable[[], None] | None = None
    ) -> None:
        self._label.setText(sentence)
        self._action.setText(action)
        self._action.setAccessibleName(action)
        self._action.setVisible(bool(action))
        self._callback = callback
        self.show()
        self._timer.start(SHOWN_MS)
        announce(self, sentence)

    def _go(self) -> None:
        """Not while somebody is at its buttons."""
        focus = QApplication.focusWidget()
        if focus is not None and self.isAncestorOf(focus):
            self._timer.start(SHOWN_MS)
        else:
            self.hide()

    def _act(self) -> None:
        self.hide()
        if self._callback is not None:
            self._callback()
