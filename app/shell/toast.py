"""A sentence at the window's foot that goes by itself, with one button to undo what it tells."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, Qt, QTimer
from PySide6.QtWidgets import QFrame, QHBoxLayout, QWidget

from app.i18n import tr
from app.shell.announce import announce
from app.shell.widgets import button, icon_button, label

SHOWN_MS = 8000
ABOVE = 128  # clear of the composer


class Toast(QFrame):
    """Lies over the lower edge of `parent`. A new message replaces the one that is shown."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._over = parent
        self.setProperty("kind", "card")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._label = label("")
        self._action = button("", "link")
        self._action.clicked.connect(self._act)
        self._close = icon_button("x", tr("common.close"), size=16)
        self._close.clicked.connect(self.hide)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(16, 8, 8, 8)
        layout.setSpacing(12)
        for widget in (self._label, self._action, self._close):
            layout.addWidget(widget)
        self._callback: Callable[[], None] | None = None
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self.hide)
        parent.installEventFilter(self)
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
        self._place()
        self.raise_()
        self._timer.start(SHOWN_MS)
        announce(self, sentence)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize:
            self._place()
        return super().eventFilter(watched, event)

    def _act(self) -> None:
        self.hide()
        if self._callback is not None:
            self._callback()

    def _place(self) -> None:
        parent = self._over
        self._label.setMaximumWidth(max(120, parent.width() - 240))
        self.adjustSize()
        self.move((parent.width() - self.width()) // 2, parent.height() - self.height() - ABOVE)
