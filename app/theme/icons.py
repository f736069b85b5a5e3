"""Icons of one family (Lucide, ISC licence), drawn in the theme's colour at any scale."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from PySide6.QtCore import QByteArray, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QIcon, QIconEngine, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

FOLDER = Path(__file__).with_name("icons")


@lru_cache(maxsize=256)
def _source(name: str) -> str:
    return (FOLDER / f"{name}.svg").read_text(encoding="utf-8")


@lru_cache(maxsize=512)
def _renderer(name: str, colour: str) -> QSvgRenderer:
    drawing = (
        _source(name)
        .replace("currentColor", colour)
        .replace('stroke-width="2"', 'stroke-width="1.75"')
    )
    return QSvgRenderer(QByteArray(drawing.encode()))


def paint_icon(painter: QPainter, name: str, colour: str, rect: QRectF) -> None:
    _renderer(name, colour).render(painter, rect)


class ThemedIcon(QIconEngine):
    """Asks the theme for its colour each time it is drawn, so a theme change needs no new icon."""

    def __init__(self, name: str, token: str) -> None:
        super().__init__()
        self._name = name
        self._token = token

    def paint(
        self,
        painter: QPainter,
        rect: QRect,
        mode: QIcon.Mode,
        state: QIcon.State,  # noqa: ARG002  # Qt's own signature
    ) -> None:
        from app.theme.theme import theme

        token = self._token
        if mode == QIcon.Mode.Disabled:
            # What is white on a coloured button would vanish on the grey of one that is off.
            token = "text_2"
            painter.setOpacity(painter.opacity() * 0.5)
        # In a place that is wider than high, the rest is the gap before the words.
        side = min(rect.width(), rect.height())
        place = QRectF(rect.x(), rect.y() + (rect.height() - side) / 2, side, side)
        paint_icon(painter, self._name, theme().colour(token), place)

    def pixmap(self, size: QSize, mode: QIcon.Mode, state: QIcon.State) -> QPixmap:
        pixmap = QPixmap(size)
        if pixmap.isNull():  # of a control that has no room yet
            return pixmap
        pixmap.fill(Qt.GlobalColor.transparent)
        painter = QPainter(pixmap)
        self.paint(painter, QRect(0, 0, size.width(), size.height()), mode, state)
        painter.end()
        return pixmap

    def clone(self) -> QIconEngine:
        return ThemedIcon(self._name, self._token)


def icon(name: str, token: str = "text_2") -> QIcon:
    """The icon `name` in the colour of `token`."""
    _source(name)  # a name that does not exist is an error here, not when it is drawn
    return QIcon(ThemedIcon(name, token))
