"""A measurement of a disk as it runs: one column for each reading, the highest fills the height."""

from __future__ import annotations

from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from app.i18n import numbers, tr
from app.theme.theme import theme

COLUMNS = 8  # readings in one measurement
SIZE = (160, 32)


class RateTrace(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self.setFixedSize(*SIZE)
        self._rates: list[float] = []
        self.setAccessibleName(tr("prefill.trace"))

    @property
    def rates(self) -> list[float]:
        return self._rates

    def begin(self) -> None:
        self._rates = []
        self.update()

    def add(self, gbps: float) -> None:
        self._rates.append(gbps)
        self.setAccessibleDescription(numbers.disk_rate(gbps * 1e9))
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        del event
        painter = QPainter(self)
        painter.fillRect(QRectF(0, self.height() - 1, self.width(), 1), theme().qcolour("line"))
        if not self._rates:
            return
        highest = max(self._rates) or 1.0
        columns = max(COLUMNS, len(self._rates))
        step = self.width() / columns
        for index, rate in enumerate(self._rates):
            height = max(2.0, (self.height() - 2) * rate / highest)
            box = QRectF(index * step, self.height() - height, step - 3, height)
            painter.fillRect(box, theme().qcolour("prefill"))
