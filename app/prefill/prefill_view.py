"""The prefill page's layout: the switch, memory and blocks, the plot, reasons, the disk."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QFrame,
    QHBoxLayout,
    QVBoxLayout,
    QWidget,
)

from app.i18n import tr
from app.prefill.block_strip import BlockStrip
from app.prefill.memory_bar import MemoryBar
from app.prefill.prefill_controller import PrefillController
from app.prefill.rate_trace import RateTrace
from app.shell.context import Context
from app.shell.page import Page
from app.shell.scrolled import scrolled
from app.shell.segments import Segments
from app.shell.widgets import button, clear_layout, column, label, row
from app.theme.theme import theme
from engine.api.turn import PathSetting

PATHS: tuple[PathSetting, ...] = ("auto", "decoder", "resident", "odp", "autocast")
# Narrower than this, the plot goes below the memory.
TWO_COLUMNS = 820
WIDEST = 1120
PLOT_HEIGHT = 320


def make_page(context: Context) -> Page:
    view = PrefillView()
    view.controller = PrefillController(context, view)
    return view


class PrefillView(Page):
    def __init__(self) -> None:
        super().__init__()
        self.model = label("", "secondary")
        self.switch = Segments(
            tr("chat.path"),
            {path: tr(f"paths.{path}") for path in PATHS},
            {path: tr(f"path_hints.{path}") for path in PATHS},
        )
        self.sentence = label("", wrap=True)
        self.sentence.setMinimumHeight(44)
        self.sentence.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.memory = MemoryBar()
        self.strip = BlockStrip()
        self.strip_words = label("", "small", wrap=True)
        self.reading = label("", "reading", wrap=True)
        left = column(
            self.memory, 12, label(tr("prefill.strip"), "heading"), self.strip, self.strip_words,
            self.reading, None,
        )  # fmt: skip
        self.left = _card(left)

        self.crossover = label("", wrap=True)
        self.legend = label("", "small", wrap=True)
        self.legend.setTextFormat(Qt.TextFormat.RichText)
        # The plot comes later than the page; its room is kept.
        self.plot_place = QWidget()
        self.plot_place.setFixedHeight(PLOT_HEIGHT)
        QVBoxLayout(self.plot_place).setContentsMargins(0, 0, 0, 0)
        right = column(label(tr("prefill.plot"), "heading"), self.crossover)
        right.addWidget(self.plot_place)
        right.addWidget(self.legend)
        self.axes = label(tr("prefill.axes"), "small", wrap=True)
        right.addWidget(self.axes)
        right.addStretch(1)
        self.right = _card(right)
        self._columns = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._columns.setSpacing(16)
        self._columns.addWidget(self.left, 4)
        self._columns.addWidget(self.right, 6)

        self.reasons = QVBoxLayout()
        self.reasons.setSpacing(8)
        why = column(label(tr("prefill.reasons"), "heading"))
        why.addLayout(self.reasons)

        self.disk = label("", wrap=True)
        self.disk_warning = label("", "warn", wrap=True)
        self.trace = RateTrace()
        self.trace.hide()
        self.measure = button(tr("prefill.measure"), icon_name="refresh-cw")
        foot = QHBoxLayout()
        foot.setSpacing(12)
        foot.addLayout(column(self.disk, self.disk_warning, spacing=4), 1)
        foot.addWidget(self.trace)
        foot.addWidget(self.measure)
        disk = column(label(tr("prefill.disk"), "heading"))
        disk.addLayout(foot)

        self.body = QWidget()
        inside = QVBoxLayout(self.body)
        inside.setContentsMargins(0, 0, 0, 0)
        inside.setSpacing(16)
        inside.addLayout(self._columns)
        inside.addWidget(_card(why))
        inside.addWidget(_card(disk))

        self.empty = label("", "secondary", wrap=True)
        self.models = button(tr("helps.choose_model"), "primary")
        self.retry = button(tr("helps.try_again"))
        self._none = QWidget()
        empty = column(self.empty, spacing=12)
        empty.addLayout(row(self.models, self.retry, None))
        self._none.setLayout(empty)

        content = QWidget()
        page = QVBoxLayout(content)
        page.setContentsMargins(24, 24, 24, 24)
        page.setSpacing(12)
        page.addWidget(label(tr("pages.prefill"), "title"))
        page.addWidget(self.model)
        page.addWidget(self.switch)
        page.addWidget(self.sentence)
        page.addWidget(self._none)
        page.addWidget(self.body)
        page.addStretch(1)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(scrolled(content, WIDEST, tr("pages.prefill")))
        self.body.hide()
        self._none.hide()

    def shown(self) -> None:
        if self.controller is not None:
            # The page is painted before it is filled: both at once would be a pause.
            QTimer.singleShot(0, self.controller, self.controller.refresh)

    def show_empty(self, words: str, *, choose: bool = False, retry: bool = False) -> None:
        """Instead of the plan: why there is none, and what helps."""
        self.empty.setText(words)
        self.models.setVisible(choose)
        self.retry.setVisible(retry)
        self._none.show()
        self.body.hide()
        self.sentence.hide()

    def show_body(self) -> None:
        self._none.hide()
        self.body.show()
        self.sentence.show()

    def show_plot(self, plot: QWidget) -> None:
        place = self.plot_place.layout()
        assert place is not None
        place.addWidget(plot)

    def show_reasons(self, reasons: Sequence[str], warnings: Sequence[str]) -> None:
        clear_layout(self.reasons)
        for words in reasons:
            self.reasons.addWidget(label(words, wrap=True))
        for words in warnings:
            self.reasons.addWidget(label(words, "warn", wrap=True))

    def show_legend(self, paths: Sequence[str], *, runs: bool) -> None:
        marks = {"decoder": ("decode", "━━"), "resident": ("prefill", "┅┅"),
                 "odp": ("prefill", "━━"), "autocast": ("text_2", "╌╌")}  # fmt: skip
        parts = [
            f'<span style="color:{theme().colour(marks[path][0])}">{marks[path][1]}</span>&nbsp;'
            + tr(f"paths.{path}").replace(" ", "&nbsp;")
            for path in paths
        ]
        if runs:
            parts.append("●&nbsp;" + tr("prefill.runs").replace(" ", "&nbsp;"))
        self.legend.setText(" &nbsp; ".join(parts))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        wide = self.width() >= TWO_COLUMNS
        ways = QBoxLayout.Direction
        self._columns.setDirection(ways.LeftToRight if wide else ways.TopToBottom)
        QTimer.singleShot(0, self, self.strip.updateGeometry)


def _card(layout: QVBoxLayout) -> QFrame:
    made = QFrame()
    made.setProperty("kind", "card")
    layout.setContentsMargins(16, 16, 16, 16)
    made.setLayout(layout)
    return made
