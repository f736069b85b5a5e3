"""One memory as a bar of its parts, with a legend of their sizes."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPainterPath, QPaintEvent, QPen
from PySide6.QtWidgets import QGridLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from app.i18n import numbers, tr
from app.prefill.facts import Memory, MemoryPart
from app.shell.widgets import clear_layout, label
from app.theme.theme import theme

BAR_HEIGHT = 28
LEAST_WIDTH = 3.0  # of a part that would be too thin to see
SWATCH = 12


def paint_part(painter: QPainter, part: MemoryPart, box: QRectF) -> None:
    """Fills `box` as this part looks: writing is teal, reading indigo, the rest grey."""
    fills: dict[MemoryPart, str] = {
        "decoder": "decode",
        "context": "decode_soft",
        "compute": "selection",
        "resident": "prefill",
        "slots": "prefill_soft",
        "program": "pressed",
        "other": "text_2",
        "free": "bg",
    }
    painter.fillRect(box, theme().qcolour(fills[part]))


class _Bar(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self._memory: Memory | None = None
        self.setFixedHeight(BAR_HEIGHT)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_memory(self, memory: Memory) -> None:
        self._memory = memory
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        del event
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        whole = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        outline = QPainterPath()
        outline.addRoundedRect(whole, 6, 6)
        painter.setClipPath(outline)
        if self._memory is not None and self._memory.total:
            left = whole.left()
            for part, size in self._memory.parts:
                width = max(LEAST_WIDTH, whole.width() * size / self._memory.total)
                width = min(width, whole.right() - left)
                paint_part(painter, part, QRectF(left, whole.top(), width, whole.height()))
                left += width
                painter.fillRect(QRectF(left - 1, whole.top(), 1, whole.height()), _gap())
        painter.setClipping(False)
        painter.setPen(QPen(theme().qcolour("line"), 1))
        painter.drawPath(outline)


def _gap() -> QColor:
    return theme().qcolour("bg")


class _Swatch(QWidget):
    def __init__(self, part: MemoryPart) -> None:
        super().__init__()
        self._part: MemoryPart = part
        self.setFixedSize(QSize(SWATCH, SWATCH))

    def paintEvent(self, event: QPaintEvent) -> None:
        del event
        painter = QPainter(self)
        box = QRectF(self.rect())
        paint_part(painter, self._part, box)
        painter.setPen(theme().qcolour("line"))
        painter.drawRect(box.adjusted(0.5, 0.5, -0.5, -0.5))


class MemoryBar(QWidget):
    """The bar and its legend; screen readers get it as one sentence."""

    def __init__(self) -> None:
        super().__init__()
        self._head = label("", "heading", wrap=True)
        self._bar = _Bar()
        self._sizes: dict[MemoryPart, QLabel] = {}
        self._legend = QGridLayout()
        self._legend.setHorizontalSpacing(8)
        self._legend.setVerticalSpacing(4)
        self._legend.setColumnStretch(1, 1)
        self._note = label("", "small", wrap=True)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        layout.addWidget(self._head)
        layout.addWidget(self._bar)
        layout.addLayout(self._legend)
        layout.addWidget(self._note)
        self._note.hide()
        theme().changed.connect(self._bar.update)

    def show_memory(self, memory: Memory, device: str, note: str = "") -> None:
        key = "prefill.memory_now" if memory.now else "prefill.memory_planned"
        head = tr(key, device=device, total=numbers.memory(memory.total))
        self._head.setText(head)
        self._bar.show_memory(memory)
        if [part for part, _ in memory.parts] != list(self._sizes):
            self._make_legend([part for part, _ in memory.parts])
        words: list[str] = []
        for part, size in memory.parts:
            self._sizes[part].setText(numbers.memory(size))
            words.append(f"{tr(f'memory.{part}')} {numbers.memory(size)}")
        self._note.setText(note)
        self._note.setVisible(bool(note))
        self._bar.setAccessibleName(f"{head}: {', '.join(words)}")

    def _make_legend(self, parts: Sequence[MemoryPart]) -> None:
        clear_layout(self._legend)
        self._sizes = {part: label("", "small") for part in parts}
        for line, part in enumerate(parts):
            self._legend.addWidget(_Swatch(part), line, 0, Qt.AlignmentFlag.AlignVCenter)
            self._legend.addWidget(label(tr(f"memory.{part}"), "small"), line, 1)
            self._legend.addWidget(self._sizes[part], line, 2, Qt.AlignmentFlag.AlignRight)
