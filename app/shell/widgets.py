"""Small controls that every page uses; each is made with its name for screen readers."""

from __future__ import annotations

from typing import Literal, cast

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QAction, QResizeEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QLayout,
    QLineEdit,
    QPushButton,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.theme.icons import icon

ICON = 16
ICON_GAP = 4  # more than Qt leaves between an icon and the words

ButtonKind = Literal["plain", "primary", "danger", "link", "quiet", "nav"]


def label(text: str, kind: str = "", *, wrap: bool = False) -> QLabel:
    made = QLabel(text)
    made.setTextFormat(Qt.TextFormat.PlainText)
    if kind:
        made.setProperty("kind", kind)
    if wrap:
        made.setWordWrap(True)
        made.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
    return made


def button(text: str, kind: ButtonKind = "plain", *, icon_name: str | None = None) -> QPushButton:
    made = QPushButton(text)
    if kind != "plain":
        made.setProperty("kind", kind)
    if icon_name is not None:
        token = {"primary": "on_prefill", "link": "prefill"}.get(kind, "text_2")
        made.setIcon(icon(icon_name, token))
        made.setIconSize(QSize(ICON + ICON_GAP, ICON))
    made.setAccessibleName(text)
    made.setAutoDefault(False)
    return made


def icon_button(name: str, tip: str, *, token: str = "text_2", size: int = 18) -> QToolButton:
    """A button of one icon: `tip` is its name and what hovering shows."""
    made = QToolButton()
    made.setIcon(icon(name, token))
    made.setIconSize(QSize(size, size))
    made.setToolTip(tip)
    made.setAccessibleName(tip)
    made.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    return made


class ElidedButton(QPushButton):
    """Words of any length in the room that there is; `words` are all of them."""

    def __init__(
        self, kind: ButtonKind, elide: Qt.TextElideMode = Qt.TextElideMode.ElideMiddle
    ) -> None:
        super().__init__()
        self._elide = elide
        self.setProperty("kind", kind)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self._words = ""

    def show_words(self, words: str) -> None:
        self._words = words
        self.setAccessibleName(words)
        self.updateGeometry()
        self._fit()

    def sizeHint(self) -> QSize:
        size = super().sizeHint()
        return QSize(self.fontMetrics().horizontalAdvance(self._words) + 16, size.height())

    def minimumSizeHint(self) -> QSize:
        return QSize(80, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        room = max(40, self.width() - 14)
        self.setText(self.fontMetrics().elidedText(self._words, self._elide, room))


def clearable(field: QLineEdit) -> None:
    """Gives a field the cross that empties it, drawn as all other icons are."""
    field.setClearButtonEnabled(True)
    clear = field.findChild(QAction, "_q_qlineeditclearaction")
    assert isinstance(clear, QAction)
    clear.setIcon(icon("x"))


def rule() -> QFrame:
    made = QFrame()
    made.setProperty("kind", "rule")
    return made


def row(*items: QWidget | int | None, spacing: int = 8) -> QHBoxLayout:
    """Widgets side by side; a number is a gap in px, None takes the rest."""
    layout = QHBoxLayout()
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(spacing)
    for item in items:
        if item is None:
            layout.addStretch(1)
        elif isinstance(item, int):
            layout.addSpacing(item)
        else:
            layout.addWidget(item)
    return layout


def column(*items: QWidget | int | None, spacing: int = 8, margin: int = 0) -> QVBoxLayout:
    """Widgets one below the other; a number is a gap in px, None takes the rest."""
    layout = QVBoxLayout()
    layout.setContentsMargins(margin, margin, margin, margin)
    layout.setSpacing(spacing)
    for item in items:
        if item is None:
            layout.addStretch(1)
        elif isinstance(item, int):
            layout.addSpacing(item)
        else:
            layout.addWidget(item)
    return layout


def clear_layout(layout: QLayout) -> None:
    """Takes out the widgets, which are gone from the screen at once."""
    while layout.count():
        widget = cast("QWidget | None", layout.takeAt(0).widget())
        if widget is not None:
            widget.hide()
            widget.deleteLater()


def restyle(widget: QWidget) -> None:
    """Makes a changed property show."""
    widget.style().unpolish(widget)
    widget.style().polish(widget)
    widget.update()
