"""The panels right of the transcript: why a path was taken, and the chat's own settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QComboBox,
    QDoubleSpinBox,
    QGridLayout,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QScrollArea,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from app.chat.answer_words import path_name, report_facts
from app.engine_client.failures import said
from app.i18n import tr
from app.shell.widgets import button, clear_layout, icon_button, label, row
from app.store.records import ChatSettings, Preset
from app.theme.tokens import PANEL_WIDTH
from engine.api.sampling import SamplingSettings

# Each control's field of the sampling settings, its range, step and digits.
_NUMBERS: tuple[tuple[str, float, float, float, int], ...] = (
    ("temperature", 0.0, 2.0, 0.1, 2),
    ("top_p", 0.01, 1.0, 0.05, 2),
    ("min_p", 0.0, 1.0, 0.01, 2),
    ("top_k", 0, 1000, 1, 0),
    ("repeat_penalty", 0.1, 2.0, 0.05, 2),
    ("max_tokens", 0, 1_000_000, 64, 0),
    ("seed", -1, 2**31 - 1, 1, 0),
)
# What stands in a control for "not set".
_UNSET: dict[str, float] = {"max_tokens": 0, "seed": -1}


class Panel(QWidget):
    """A titled column that can be closed, also with Escape."""

    closed = Signal()

    def __init__(self, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("kind", "panel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setMinimumWidth(PANEL_WIDTH)
        close = icon_button("x", tr("common.close"))
        close.clicked.connect(self.closed)
        self.body = QVBoxLayout()
        self.body.setSpacing(12)
        inner = QWidget()
        inner.setLayout(self.body)
        self.body.setContentsMargins(16, 4, 16, 16)
        scroll = QScrollArea()
        scroll.setWidget(inner)
        scroll.setWidgetResizable(True)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setAccessibleName(title)
        scroll.viewport().setAutoFillBackground(False)
        inner.setAutoFillBackground(False)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        head = row(label(title, "heading"), None, close)
        head.setContentsMargins(16, 12, 8, 8)
        layout.addLayout(head)
        layout.addWidget(scroll, 1)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.closed.emit()
        else:
            super().keyPressEvent(event)


class WhyPanel(Panel):
    """How one prompt was read, and why that way."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(tr("why.title"), parent)
        self._path = label("", "badge-prefill")
        self._reason = label("", wrap=True)
        self._reason.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._facts = QGridLayout()
        self._facts.setHorizontalSpacing(12)
        self._facts.setVerticalSpacing(6)
        self._facts.setColumnStretch(0, 1)
        self._empty = label(tr("why.empty"), "secondary", wrap=True)
        self.body.addLayout(row(self._path, None))
        self.body.addWidget(self._reason)
        self.body.addLayout(self._facts)
        self.body.addWidget(self._empty)
        self.body.addStretch(1)
        self.show_report(None)

    def show_report(self, report: dict[str, Any] | None) -> None:
        clear_layout(self._facts)
        path = report.get("path") if report else None
        self._path.setVisible(path is not None)
        self._reason.setVisible(path is not None)
        self._empty.setVisible(report is None)
        if report is None:
            return
        if path is not None:
            self._path.setText(path_name(path))
            data: dict[str, Any] = report.get("reason_data") or {}
            code, as_sent = report.get("reason_code") or "", report.get("reason") or ""
            self._reason.setText(said(code, data, as_sent))
        for line, (name, value) in enumerate(report_facts(report)):
            self._facts.addWidget(label(name, "small"), line, 0)
            shown: QLabel = label(value, "small")
            shown.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            self._facts.addWidget(shown, line, 1, Qt.AlignmentFlag.AlignRight)


class ChatSettingsPanel(Panel):
    """System prompt, sampling and presets of the chat that is open. `changed` with ChatSettings."""

    changed = Signal(object)
    preset_saved = Signal(str, object)
    preset_deleted = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(tr("chat_settings.title"), parent)
        self._showing = False
        self._settings = ChatSettings()
        self._presets: list[Preset] = []
        self._preset = QComboBox()
        self._preset.setAccessibleName(tr("chat_settings.preset"))
        self._preset.activated.connect(self._on_preset)
        self._remove = icon_button("trash-2", tr("chat_settings.delete_preset"))
        self._remove.clicked.connect(self._on_remove)
        self._prompt = QPlainTextEdit()
        self._prompt.setAccessibleName(tr("chat_settings.system_prompt"))
        self._prompt.setPlaceholderText(tr("chat_settings.system_prompt_hint"))
        self._prompt.setTabChangesFocus(True)
        self._prompt.setFixedHeight(140)
        self._prompt.textChanged.connect(self._on_changed)
        self._numbers: dict[str, QSpinBox | QDoubleSpinBox] = {}
        form = QGridLayout()
        form.setHorizontalSpacing(12)
        form.setVerticalSpacing(8)
        form.setColumnStretch(0, 1)
        defaults = SamplingSettings()
        for name, low, high, step, digits in _NUMBERS:
            control = _number(low, high, step, digits)
            words = tr(f"sampling.{name}")
            control.setAccessibleName(words)
            control.setToolTip(tr(f"sampling.{name}_hint"))
            if name in _UNSET:
                control.setSpecialValueText(tr(f"sampling.{name}_unset"))
            control.setValue(_UNSET.get(name, getattr(defaults, name)))  # pyright: ignore[reportArgumentType]
            control.valueChanged.connect(self._on_changed)
            self._numbers[name] = control
            caption = label(words, "small")
            caption.setToolTip(tr(f"sampling.{name}_hint"))
            control.setFixedWidth(124)
            control.lineEdit().setTextMargins(8, 0, 0, 0)
            line = form.rowCount()
            form.addWidget(caption, line, 0)
            form.addWidget(control, line, 1)
        self._name = QLineEdit()
        self._name.setPlaceholderText(tr("chat_settings.preset_name"))
        self._name.setAccessibleName(tr("chat_settings.preset_name"))
        self._save = save = button(tr("common.save"))
        save.clicked.connect(self._on_save)
        save.setEnabled(False)
        self._name.textChanged.connect(self._on_name)
        self._name.returnPressed.connect(self._on_save)
        reset = button(tr("chat_settings.reset"), "link")
        reset.clicked.connect(lambda: self._take(ChatSettings(path=self._settings.path)))
        presets = row(self._preset, self._remove)
        presets.setStretch(0, 1)
        saving = row(self._name, save)
        saving.setStretch(0, 1)
        self.body.addWidget(label(tr("chat_settings.preset"), "small"))
        self.body.addLayout(presets)
        self.body.addWidget(label(tr("chat_settings.system_prompt"), "small"))
        self.body.addWidget(self._prompt)
        self.body.addLayout(form)
        self.body.addLayout(row(reset, None))
        self.body.addWidget(label(tr("chat_settings.save_as"), "small"))
        self.body.addLayout(saving)
        self.body.addStretch(1)
        self.show_presets([])

    def show_settings(self, settings: ChatSettings) -> None:
        self._showing = True
        self._settings = settings
        if self._prompt.toPlainText() != settings.system_prompt:
            self._prompt.setPlainText(settings.system_prompt)
        defaults = SamplingSettings()
        for name, control in self._numbers.items():
            value = settings.sampling.get(name, _UNSET.get(name, getattr(defaults, name)))
            control.setValue(value)  # pyright: ignore[reportArgumentType]
        self._showing = False

    def show_presets(self, presets: Sequence[Preset]) -> None:
        self._presets = list(presets)
        self._preset.clear()
        self._preset.addItem(tr("chat_settings.choose_preset"))
        self._preset.addItems([preset.name for preset in presets])
        self._preset.setEnabled(bool(presets))
        self._remove.setEnabled(False)

    def _on_preset(self, number: int) -> None:
        self._remove.setEnabled(number > 0)
        if number > 0:
            preset = self._presets[number - 1].settings
            self._take(ChatSettings(preset.system_prompt, preset.sampling, self._settings.path))

    def _on_remove(self) -> None:
        number = self._preset.currentIndex()
        if number > 0:
            self.preset_deleted.emit(self._presets[number - 1].id)

    def _on_name(self, name: str) -> None:
        self._save.setEnabled(bool(name.strip()))

    def _on_save(self) -> None:
        name = self._name.text().strip()
        if name:
            self._name.clear()
            self.preset_saved.emit(name, self._settings)

    def _on_changed(self, _value: float = 0) -> None:
        if self._showing:
            return
        defaults = SamplingSettings()
        sampling: dict[str, Any] = {}
        for name, control in self._numbers.items():
            value = control.value()
            if name in _UNSET:
                if value != _UNSET[name]:
                    sampling[name] = int(value)
            elif value != getattr(defaults, name):
                sampling[name] = value
        self._settings = ChatSettings(self._prompt.toPlainText(), sampling, self._settings.path)
        self.changed.emit(self._settings)

    def _take(self, settings: ChatSettings) -> None:
        self.show_settings(settings)
        self.changed.emit(settings)


def _number(low: float, high: float, step: float, digits: int) -> QSpinBox | QDoubleSpinBox:
    if digits == 0:
        whole = QSpinBox()
        whole.setRange(int(low), int(high))
        whole.setSingleStep(int(step))
        return whole
    made = QDoubleSpinBox()
    made.setDecimals(digits)
    made.setRange(low, high)
    made.setSingleStep(step)
    return made
