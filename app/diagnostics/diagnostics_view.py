"""The hardware and diagnostics page's layout: machine, cards, findings, the log, the bundle."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import (
    QComboBox,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QPlainTextEdit,
    QProgressBar,
    QVBoxLayout,
    QWidget,
)

from app.diagnostics.cards_view import CardsView
from app.diagnostics.diagnostics_controller import DiagnosticsController
from app.diagnostics.facts import Facts, LogLine
from app.i18n import tr
from app.shell.context import Context
from app.shell.page import Page
from app.shell.scrolled import scrolled
from app.shell.widgets import button, clear_layout, column, label, row
from app.theme.theme import theme

WIDEST = 960
LOG_HEIGHT = 260
NAME_WIDTH = 150
LEVELS = ("debug", "info", "warning", "error")


def make_page(context: Context) -> Page:
    view = DiagnosticsView()
    view.controller = DiagnosticsController(context, view)
    return view


class FactsTable(QWidget):
    """Names on the left, values that can be selected on the right."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(16)
        self._grid.setVerticalSpacing(6)
        self._grid.setColumnMinimumWidth(0, NAME_WIDTH)
        self._grid.setColumnStretch(1, 1)

    def show_facts(self, facts: Facts) -> None:
        clear_layout(self._grid)
        for line, (name, value) in enumerate(facts):
            shown = label(value, wrap=True)
            shown.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            self._grid.addWidget(label(name, "secondary"), line, 0, Qt.AlignmentFlag.AlignTop)
            self._grid.addWidget(shown, line, 1)


class DiagnosticsView(Page):
    def __init__(self) -> None:
        super().__init__()
        self._lines: Sequence[LogLine] = ()
        self.waiting = label("", "secondary", wrap=True)

        self.hardware = FactsTable(tr("diagnostics.hardware"))
        self.measure = button(tr("diagnostics.measure"), icon_name="gauge")
        self.step = label("", "small", wrap=True)
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setRange(0, 1000)
        self.bar.setAccessibleName(tr("diagnostics.measuring"))
        head = row(label(tr("diagnostics.hardware"), "heading"), None, self.measure)
        machine = column(spacing=10)
        machine.addLayout(head)
        machine.addWidget(self.step)
        machine.addWidget(self.bar)
        machine.addWidget(self.hardware)

        self.cards = CardsView()

        self.check = button(tr("diagnostics.check"), icon_name="activity")
        self.verdict = label(tr("diagnostics.not_checked"), wrap=True)
        self.found = QVBoxLayout()
        self.found.setSpacing(6)
        self.report = FactsTable(tr("diagnostics.findings"))
        doctor = column(spacing=10)
        doctor.addLayout(row(label(tr("diagnostics.findings"), "heading"), None, self.check))
        doctor.addWidget(self.verdict)
        doctor.addLayout(self.found)
        doctor.addWidget(self.report)

        self.level = QComboBox()
        for level in LEVELS:
            self.level.addItem(tr(f"diagnostics.from_{level}"), level)
        self.level.setCurrentIndex(1)
        self.level.setAccessibleName(tr("diagnostics.level"))
        self.level.activated.connect(self._draw_log)
        self.refresh_log = button(tr("diagnostics.refresh"), icon_name="refresh-cw")
        self.log = QPlainTextEdit()
        self.log.setReadOnly(True)
        flags = Qt.TextInteractionFlag
        self.log.setTextInteractionFlags(
            flags.TextSelectableByMouse | flags.TextSelectableByKeyboard
        )
        self.log.setTabChangesFocus(True)
        self.log.setFixedHeight(LOG_HEIGHT)
        self.log.setAccessibleName(tr("diagnostics.log"))
        self.log.setPlaceholderText(tr("diagnostics.no_log"))
        logs = column(spacing=10)
        title = label(tr("diagnostics.log"), "heading")
        logs.addLayout(row(title, None, self.level, self.refresh_log))
        logs.addWidget(self.log)

        self.export = button(tr("diagnostics.export"), icon_name="file-down")
        words = label(tr("diagnostics.export_words"), "secondary", wrap=True)
        bundle = column(label(tr("diagnostics.bundle"), "heading"))
        line = QHBoxLayout()
        line.setSpacing(16)
        line.addWidget(words, 1)
        line.addWidget(self.export)
        bundle.addLayout(line)

        content = QWidget()
        inside = column(
            label(tr("pages.diagnostics"), "title"), self.waiting, spacing=16, margin=24
        )
        for part in (machine, self.cards, doctor, logs, bundle):
            inside.addWidget(_card(part))
        inside.addStretch(1)
        content.setLayout(inside)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(scrolled(content, WIDEST, tr("pages.diagnostics")))
        self.waiting.hide()
        self.bar.hide()
        self.step.hide()
        theme().changed.connect(self._draw_log)

    def show_problems(self, problems: Sequence[str]) -> None:
        clear_layout(self.found)
        for words in problems:
            shown = label(words, "error", wrap=True)
            shown.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            self.found.addWidget(shown)

    def show_log(self, lines: Sequence[LogLine]) -> None:
        self._lines = lines
        self._draw_log()

    def show_measuring(self, words: str, share: float | None) -> None:
        """Empty words: nothing is measured."""
        measuring = bool(words)
        self.step.setText(words)
        self.step.setVisible(measuring)
        self.bar.setVisible(measuring)
        self.bar.setRange(0, 1000 if share is not None else 0)
        self.bar.setValue(round((share or 0.0) * 1000))
        name = tr("actions.stop" if measuring else "diagnostics.measure")
        self.measure.setText(name)
        self.measure.setAccessibleName(name)

    def _draw_log(self) -> None:
        least = LEVELS.index(self.level.currentData())
        self.log.clear()
        cursor = QTextCursor(self.log.document())
        for number, line in enumerate(
            line for line in self._lines if line.level not in LEVELS[:least]
        ):
            token = {"warning": "warn", "error": "error", "info": "text"}.get(line.level, "text_2")
            style = QTextCharFormat()
            style.setForeground(QColor(theme().colour(token)))
            start = "\n" if number else ""
            cursor.insertText(f"{start}{line.time}  {line.text}".rstrip(), style)
        self.log.moveCursor(QTextCursor.MoveOperation.End)


def _card(layout: QVBoxLayout) -> QFrame:
    made = QFrame()
    made.setProperty("kind", "card")
    layout.setContentsMargins(16, 16, 16, 16)
    made.setLayout(layout)
    return made
