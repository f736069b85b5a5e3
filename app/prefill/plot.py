"""The plot of predicted and real times to the first token over the prompt's length.

Imports the plotting library, which takes a while: the page imports this module off its thread.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import log10
from typing import Any

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QColor, QShowEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.i18n import numbers, tr
from app.prefill.facts import rounded
from app.theme.theme import theme
from app.theme.tokens import TYPE
from engine.api.plan import Forecast, Plan
from engine.api.turn import Path

# The library is not typed.
pyqtgraph: Any = importlib.import_module("pyqtgraph")


@dataclass(frozen=True)
class Run:
    """A prompt that was really read here: its tokens, and seconds to the first one."""

    path: Path
    tokens: int
    seconds: float


# Colour and dashes of each path: the decoder's own is teal, the prefiller's are indigo.
_STYLES: dict[Path, tuple[str, Qt.PenStyle]] = {
    "decoder": ("decode", Qt.PenStyle.SolidLine),
    "resident": ("prefill", Qt.PenStyle.DotLine),
    "odp": ("prefill", Qt.PenStyle.SolidLine),
    "autocast": ("text_2", Qt.PenStyle.DashLine),
}


class TimePlot(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self._plan: Plan | None = None
        self._runs: Sequence[Run] = ()
        self._plot: Any = pyqtgraph.PlotWidget()
        self._plot.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._plot.setMouseEnabled(x=False, y=False)
        self._plot.setMenuEnabled(False)
        self._plot.hideButtons()
        self._plot.setFrameShape(self._plot.Shape.NoFrame)
        self._item: Any = self._plot.getPlotItem()
        self._item.getViewBox().setDefaultPadding(0.0)
        self._plot.viewport().setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._plot)
        # A page that opens is resized several times in a row, and one drawing is enough.
        self._soon = QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.setInterval(0)
        self._soon.timeout.connect(self._redraw)
        theme().changed.connect(self.redraw)

    def show_plan(self, plan: Plan, runs: Sequence[Run]) -> None:
        if (plan, runs) != (self._plan, self._runs):
            self._plan, self._runs = plan, runs
            self.redraw()

    def redraw(self) -> None:
        """Soon, and only where somebody sees it."""
        if self.isVisible():
            self._soon.start()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.redraw()

    def _redraw(self) -> None:
        """Draws everything anew: there is little of it."""
        self._item.clear()
        self._style()
        plan = self._plan
        if plan is None:
            return
        shown = [length for length in plan.prompt_tokens if length <= plan.context]
        shown = shown or [plan.prompt_tokens[0]]
        low, high = log10(shown[0]), log10(max(shown[-1], shown[0] * 2))
        runs = [run for run in self._runs if shown[0] <= run.tokens <= 10**high]
        times = [seconds for line in plan.forecasts for seconds in line.ttft_s[: len(shown)]] + [
            run.seconds for run in runs
        ]
        bottom, top = log10(max(1e-3, min(times))) - 0.1, log10(max(times)) + 0.15
        if top - bottom < 1.2:
            top = bottom + 1.2
        self._item.setXRange(low - 0.08, high + 0.09)  # room for half of the outer labels
        self._item.setYRange(bottom, top)
        self._ticks(shown, bottom, top)
        for forecast in plan.forecasts:
            self._line(forecast, shown)
        if runs:
            self._dots(runs)
        if plan.crossover is not None and shown[0] < plan.crossover < shown[-1]:
            self._crossover(plan.crossover, low, high)
        self._say(plan, shown, len(runs))

    # Inside

    def _style(self) -> None:
        tokens = theme()
        self._plot.setBackground(tokens.qcolour("surface"))
        font = tokens.font(TYPE.small)
        for side in ("left", "bottom"):
            axis = self._item.getAxis(side)
            axis.setPen(pyqtgraph.mkPen(tokens.qcolour("line")))
            axis.setTextPen(pyqtgraph.mkPen(tokens.qcolour("text_2")))
            axis.setTickFont(font)
            axis.setStyle(tickLength=0, tickTextOffset=8, hideOverlappingLabels=False)
        self._item.getAxis("left").setWidth(tokens.px(64))
        self._item.getAxis("bottom").setHeight(tokens.px(30))
        self._item.showGrid(x=True, y=True, alpha=0.25)

    def _ticks(self, shown: Sequence[int], bottom: float, top: float) -> None:
        most = max(2, self.width() // theme().px(90))
        step = -(-len(shown) // most)
        along = [(log10(length), numbers.count(length)) for length in shown[::step]]
        self._item.getAxis("bottom").setTicks([along])
        rising = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 300.0, 1200.0, 3600.0, 18000.0]
        if top - bottom > 2.5:
            rising = [0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 36000.0]
        up = [(log10(value), _short(value)) for value in rising if bottom < log10(value) < top]
        self._item.getAxis("left").setTicks([up])

    def _line(self, forecast: Forecast, shown: Sequence[int]) -> None:
        token, dashes = _STYLES[forecast.path]
        colour = theme().qcolour(token)
        if not forecast.fits:
            colour.setAlphaF(0.45)
        pen = pyqtgraph.mkPen(colour, width=2, style=dashes)
        along = [log10(length) for length in shown]
        up = [log10(seconds) for seconds in forecast.ttft_s[: len(shown)]]
        self._item.plot(along, up, pen=pen, antialias=True)

    def _dots(self, runs: Sequence[Run]) -> None:
        brushes = [theme().qcolour(_STYLES[run.path][0]) for run in runs]
        edge = pyqtgraph.mkPen(theme().qcolour("surface"), width=1)
        dots = pyqtgraph.ScatterPlotItem(
            x=[log10(run.tokens) for run in runs],
            y=[log10(run.seconds) for run in runs],
            size=9,
            pen=edge,
            brush=brushes,
        )
        self._item.addItem(dots)

    def _crossover(self, tokens: int, low: float, high: float) -> None:
        place = log10(tokens)
        colour = QColor(theme().qcolour("text_2"))
        line = pyqtgraph.InfiniteLine(
            place, angle=90, pen=pyqtgraph.mkPen(colour, style=Qt.PenStyle.DashLine)
        )
        self._item.addItem(line)
        words = tr("prefill.crossover_mark", tokens=numbers.count(rounded(tokens)))
        right = place < (low + high) / 2
        mark = pyqtgraph.TextItem(
            words, color=theme().qcolour("text"), anchor=(-0.03 if right else 1.03, 0)
        )
        mark.setFont(theme().font(TYPE.small))
        self._item.addItem(mark, ignoreBounds=True)
        mark.setPos(place, self._item.getViewBox().viewRange()[1][1])

    def _say(self, plan: Plan, shown: Sequence[int], dots: int) -> None:
        longest = shown[-1]
        index = plan.prompt_tokens.index(longest)
        lines = [
            tr(
                "prefill.plot_line",
                path=tr(f"paths.{forecast.path}"),
                time=numbers.seconds(forecast.ttft_s[index]),
            )
            for forecast in plan.forecasts
        ]
        self.setAccessibleName(tr("prefill.plot"))
        self.setAccessibleDescription(
            tr(
                "prefill.plot_said",
                tokens=numbers.count(longest),
                lines=", ".join(lines),
                dots=dots,
            )
        )

    def resizeEvent(self, event: object) -> None:
        del event
        self.redraw()


def _short(seconds: float) -> str:
    if seconds < 60:
        return tr("units.seconds", value=f"{seconds:g}")
    if seconds < 3600:
        return tr("prefill.short_minutes", value=f"{seconds / 60:g}")
    return tr("prefill.short_hours", value=f"{seconds / 3600:g}")
