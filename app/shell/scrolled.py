"""A page's content in a column of limited width that scrolls where it does not fit."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QHBoxLayout, QScrollArea, QWidget


class _Middle(QWidget):
    def __init__(self, content: QWidget) -> None:
        super().__init__()
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addStretch(1)
        layout.addWidget(content, 1000)
        layout.addStretch(1)

    def minimumSizeHint(self) -> QSize:
        """Where the height follows from the width, what Qt adds up for the narrowest is far too
        much."""
        hint = super().minimumSizeHint()
        layout = self.layout()
        follows = layout is not None and layout.hasHeightForWidth()
        return QSize(hint.width(), 0 if follows else hint.height())


class _Area(QScrollArea):
    """Leaves the scroll bar's place free while there is none: all pages are equally wide."""

    def __init__(self) -> None:
        super().__init__()
        self.verticalScrollBar().rangeChanged.connect(self._keep_width)
        self._keep_width(0, 0)

    def _keep_width(self, least: int, most: int) -> None:
        free = self.verticalScrollBar().sizeHint().width() if most <= least else 0
        self.setViewportMargins(0, 0, free, 0)


def scrolled(content: QWidget, widest: int, name: str) -> QScrollArea:
    content.setMaximumWidth(widest)
    area = _Area()
    area.setWidget(_Middle(content))
    area.setWidgetResizable(True)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    area.setAccessibleName(name)
    return area
