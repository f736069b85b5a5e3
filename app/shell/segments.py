"""A switch of a few words side by side, of which one is chosen."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QButtonGroup, QHBoxLayout, QPushButton, QWidget

from app.shell.widgets import button

_STEPS = {Qt.Key.Key_Right: 1, Qt.Key.Key_Down: 1, Qt.Key.Key_Left: -1, Qt.Key.Key_Up: -1}


class Segments(QWidget):
    """`choices` are words by id, `hints` what each means. Arrow keys go from one to the next.
    `chosen` with the id."""

    chosen = Signal(str)

    def __init__(
        self, name: str, choices: Mapping[str, str], hints: Mapping[str, str] | None = None
    ) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self._group = QButtonGroup(self)
        self._group.setExclusive(True)
        self.buttons: dict[str, QPushButton] = {}
        line = QHBoxLayout(self)
        line.setContentsMargins(0, 0, 0, 0)
        line.setSpacing(8)
        for key, words in choices.items():
            made = button(words)
            made.setProperty("kind", "segment")
            made.setCheckable(True)
            hint = (hints or {}).get(key, "")
            made.setToolTip(hint)
            made.setAccessibleDescription(hint)
            made.clicked.connect(partial(self.chosen.emit, key))
            made.installEventFilter(self)
            self._group.addButton(made)
            self.buttons[key] = made
            line.addWidget(made, 1)
        self._group.buttonToggled.connect(self._stop_at_chosen)

    def show_chosen(self, key: str) -> None:
        self.buttons[key].setChecked(True)

    def _stop_at_chosen(self) -> None:
        """The group is one stop for Tab: what is chosen. Qt sees to that only once it was there."""
        for made in self.buttons.values():
            policy = Qt.FocusPolicy
            made.setFocusPolicy(policy.StrongFocus if made.isChecked() else policy.ClickFocus)

    def rename(self, key: str, words: str) -> None:
        self.buttons[key].setText(words)
        self.buttons[key].setAccessibleName(words)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            step = _STEPS.get(Qt.Key(event.key()))
            made = list(self.buttons.values())
            if step is not None and isinstance(watched, QPushButton) and watched in made:
                following = made[(made.index(watched) + step) % len(made)]
                following.setFocus(Qt.FocusReason.TabFocusReason)
                following.click()
                return True
        return False
