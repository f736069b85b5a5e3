"""A control for each kind of setting: shows a value, and tells when it was changed."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDoubleSpinBox,
    QHBoxLayout,
    QLineEdit,
    QSpinBox,
    QWidget,
)

from app.i18n import tr
from app.settings.entries import Entry

WIDTH = 240
_MOST = 2**31 - 2


class Editor(QWidget):
    """`edited` with the new value: None takes an optional one away."""

    edited = Signal(object)

    def __init__(self, entry: Entry) -> None:
        super().__init__()
        self._entry = entry
        self.setFixedWidth(WIDTH)
        self.control = self._make()
        self.control.setAccessibleName(entry.title)
        self.control.setAccessibleDescription(entry.hint)
        self.control.setEnabled(not entry.fixed)
        self.control.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.control.installEventFilter(self)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        if isinstance(self.control, QCheckBox):
            layout.addStretch(1)
            layout.addWidget(self.control)
        else:
            layout.addWidget(self.control, 1)
        self.setFocusProxy(self.control)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """The wheel scrolls the page, unless the control has been gone to."""
        if event.type() == QEvent.Type.Wheel and not self.control.hasFocus():
            event.ignore()
            return True
        return super().eventFilter(watched, event)

    def _tell(self, value: float) -> None:
        self.edited.emit(value)

    def _tell_choice(self, made: QComboBox, _index: int) -> None:
        self.edited.emit(made.currentData())

    def _make(self) -> QWidget:
        entry = self._entry
        match entry.kind:
            case "bool":
                box = QCheckBox()
                box.setProperty("kind", "bare")
                box.setChecked(bool(entry.value))
                box.toggled.connect(self._tell)
                return box
            case "choice":
                return self._choice()
            case "int":
                return self._whole()
            case "float":
                return self._decimal()
            case "text" | "list":
                return self._text()

    def _choice(self) -> QComboBox:
        entry, made = self._entry, QComboBox()
        for choice in entry.choices:
            made.addItem(entry.choice_words(choice), choice)
        made.setCurrentIndex(max(0, made.findData(entry.value)))
        made.activated.connect(partial(self._tell_choice, made))
        return made

    def _whole(self) -> QSpinBox:
        """An optional number is "automatic" one below its least."""
        entry, made = self._entry, QSpinBox()
        least = int(entry.minimum if entry.minimum is not None else -_MOST)
        most = int(entry.maximum if entry.maximum is not None else _MOST)
        if entry.optional:
            made.setSpecialValueText(tr("settings.automatic"))
            least -= 1
        made.setRange(least, min(most, _MOST))
        made.setGroupSeparatorShown(entry.name != "server.port")
        made.setKeyboardTracking(False)
        made.setValue(least if entry.value is None else int(entry.value))

        def changed(value: int) -> None:
            self.edited.emit(None if entry.optional and value == least else value)

        made.valueChanged.connect(changed)
        return made

    def _decimal(self) -> QDoubleSpinBox:
        entry, made = self._entry, QDoubleSpinBox()
        made.setDecimals(2)
        made.setRange(
            entry.minimum if entry.minimum is not None else -1e9,
            entry.maximum if entry.maximum is not None else 1e9,
        )
        made.setSingleStep(entry.step or 0.05)
        made.setKeyboardTracking(False)
        made.setValue(float(entry.value or 0.0))
        made.valueChanged.connect(self._tell)
        return made

    def _text(self) -> QLineEdit:
        entry, made = self._entry, QLineEdit()
        if entry.secret:
            made.setEchoMode(QLineEdit.EchoMode.Password)
            made.setPlaceholderText(tr("settings.is_set" if entry.value else "settings.automatic"))
        elif entry.kind == "list":
            made.setText(", ".join(cast("list[str]", entry.value)))
            made.setPlaceholderText(tr("settings.list"))
        else:
            made.setText(entry.value or "")
            made.setPlaceholderText(tr("settings.automatic"))
        shown = made.text()

        def finished() -> None:
            nonlocal shown
            text = made.text().strip()
            if text == shown:
                return
            shown = text
            value: Any = text or None
            if entry.kind == "list":
                value = [part.strip() for part in text.split(",") if part.strip()]
            self.edited.emit(value)

        made.editingFinished.connect(finished)
        return made
