"""The model's blocks in a row: where each one's weights lie, and what happens to it now."""

from __future__ import annotations

import time
from collections.abc import Sequence

from PySide6.QtCore import QRectF, QSize, Qt, QTimer
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.i18n import tr
from app.theme.motion import reduced_motion
from app.theme.theme import theme
from app.theme.tokens import MOTION_MS
from engine.api.plan import Tier
from engine.api.turn import PrefillProgress

HEIGHT = 36
FRAME_MS = 33
LEAST_WIDTH = 5.0
GAP = 2.0
# How long a block's loading is shown to take until its own speed is known.
FIRST_BLOCK_S = 0.2


class BlockStrip(QWidget):
    """`show_tiers` colours the blocks; `show_progress` follows a prompt, `end_reading` ends that.

    Solid: the block's weights are in the memory that computes; soft: in the host's; outline:
    on the disk. While a prompt is read, the next block fills from the left, the one that computes
    pulses once, those that are done turn teal.
    """

    def __init__(self) -> None:
        super().__init__()
        self._tiers: tuple[Tier, ...] = ()
        self._computing: int | None = None
        self._path = ""
        self._entered = 0.0
        self._block_s = FIRST_BLOCK_S
        self._timer = QTimer(self)
        self._timer.setInterval(FRAME_MS)
        self._timer.timeout.connect(self.update)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme().changed.connect(self.update)
        self._say()

    @property
    def moving(self) -> bool:
        return self._timer.isActive()

    @property
    def computing(self) -> int | None:
        """The block that computes, counted from 0; None while no prompt is read."""
        return self._computing

    def show_tiers(self, tiers: Sequence[Tier]) -> None:
        self._tiers = tuple(tiers)
        self._fit()
        self._say()
        self.update()

    def show_progress(self, progress: PrefillProgress) -> None:
        if not self._tiers or not progress.blocks:
            return
        block = min(len(self._tiers) - 1, max(0, progress.block - 1))
        now = time.monotonic()
        if self._computing is not None and block > self._computing:
            took = (now - self._entered) / (block - self._computing)
            self._block_s = 0.5 * self._block_s + 0.5 * took
        if block != self._computing:
            self._entered = now
        self._computing, self._path = block, progress.path
        if not reduced_motion() and self.isVisible():
            self._timer.start()
        self._say()
        self.update()

    def end_reading(self) -> None:
        self._computing = None
        self._timer.stop()
        self._say()
        self.update()

    def hideEvent(self, event: object) -> None:
        del event
        self._timer.stop()

    def sizeHint(self) -> QSize:
        rows = self._rows(max(1, self.width()))
        return QSize(240, rows * (HEIGHT + 4) - 4)

    def minimumSizeHint(self) -> QSize:
        return QSize(160, self.sizeHint().height())

    def resizeEvent(self, event: object) -> None:
        del event
        self._fit()

    def _fit(self) -> None:
        """As high as its rows are, whether its width or its blocks have changed."""
        height = self.sizeHint().height()
        if height != self.minimumHeight():
            self.setFixedHeight(height)

    def paintEvent(self, event: QPaintEvent) -> None:
        del event
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for index in range(len(self._tiers)):
            self._paint_block(painter, index, self._box(index))

    # Inside

    def _rows(self, width: float) -> int:
        """More blocks than fit in a line go on in the next."""
        a_row = max(1, int((width + GAP) // (LEAST_WIDTH + GAP)))
        return max(1, -(-len(self._tiers) // a_row))

    def _box(self, index: int) -> QRectF:
        rows = self._rows(self.width())
        in_row = -(-len(self._tiers) // rows)
        row, column = divmod(index, in_row)
        step = (self.width() + GAP) / in_row
        box = QRectF(column * step, row * (HEIGHT + 4), step - GAP, HEIGHT)
        return box.adjusted(0.5, 0.5, -0.5, -0.5)

    def _paint_block(self, painter: QPainter, index: int, box: QRectF) -> None:
        tokens = theme()
        tier = self._tiers[index]
        fill: QColor | None = None
        edge = tokens.qcolour("prefill" if tier != "disk" else "text_2")
        computing = self._computing
        if computing is not None and index < computing:
            fill, edge = tokens.qcolour("decode_soft"), tokens.qcolour("decode")
        elif computing is not None and index == computing:
            fill, edge = self._pulse(), tokens.qcolour("prefill")
        elif tier == "device":
            fill = tokens.qcolour("prefill")
        elif tier == "host":
            fill = tokens.qcolour("prefill_soft")
        painter.setPen(QPen(edge, 1))
        painter.setBrush(fill if fill is not None else Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(box, 2, 2)
        share = self._loaded(index)
        if share > 0:
            part = QRectF(box.left(), box.top(), box.width() * share, box.height())
            painter.fillRect(part, tokens.qcolour("prefill"))

    def _loaded(self, index: int) -> float:
        """How much of the next block has come, as its predecessor's time lets expect."""
        if self._computing is None or index != self._computing + 1:
            return 0.0
        if self._tiers[index] == "device" or self._path not in ("odp", "resident"):
            return 0.0
        if not self._timer.isActive():
            return 0.5  # nothing moves: half says that it is on its way
        return min(1.0, (time.monotonic() - self._entered) / max(0.01, self._block_s))

    def _pulse(self) -> QColor:
        """Bright when the block begins to compute, its own colour after the pulse."""
        colour = theme().qcolour("prefill")
        if not self._timer.isActive():
            return colour
        age = (time.monotonic() - self._entered) * 1000 / MOTION_MS
        if age < 1:
            colour.setAlphaF(0.35 + 0.65 * age)
        return colour

    def _say(self) -> None:
        counts = {tier: self._tiers.count(tier) for tier in ("device", "host", "disk")}
        words = [tr(f"tiers.{tier}_count", count=count) for tier, count in counts.items() if count]
        name = tr("prefill.strip")
        if words:
            name += f": {', '.join(words)}"
        if self._computing is not None:
            blocks = len(self._tiers)
            name += f"; {tr('chat.block', block=self._computing + 1, blocks=blocks)}"
        self.setAccessibleName(name)
