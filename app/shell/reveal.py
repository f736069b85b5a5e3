"""Scrolls whatever holds the control with the focus until that control can be seen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from PySide6.QtCore import QPoint, QRect
from PySide6.QtWidgets import QScrollArea, QTextEdit, QWidget

AROUND = 24  # px that are seen beyond the control


@runtime_checkable
class Reveals(Protocol):
    """What scrolls by itself: brings a part of `widget`, in its coordinates, into view."""

    def reveal(self, widget: QWidget, part: QRect) -> None: ...


def reveal(widget: QWidget) -> None:
    """Of a text, the place that the keyboard is at."""
    part = widget.cursorRect() if isinstance(widget, QTextEdit) else widget.rect()
    for area in _around(widget):
        if isinstance(area, QScrollArea):
            place = widget.mapTo(area.widget(), part.center())
            reach = QPoint(part.width() // 2 + AROUND, part.height() // 2 + AROUND)
            area.ensureVisible(place.x(), place.y(), reach.x(), reach.y())
        elif isinstance(area, Reveals):
            area.reveal(widget, part)


def _around(widget: QWidget) -> Iterator[QWidget]:
    parent = widget.parentWidget()
    while parent is not None:
        yield parent
        parent = parent.parentWidget()
