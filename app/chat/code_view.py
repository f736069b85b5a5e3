"""A piece of a code block: coloured, scrolled sideways, the first piece with a copy button."""

from __future__ import annotations

import math

from PySide6.QtCore import QRectF, Qt, QTimer
from PySide6.QtGui import QPainter, QPainterPath, QPaintEvent, QPen, QTextOption
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.chat.prose import StillText, code_style, copy_text
from app.i18n import tr
from app.shell.widgets import icon_button, label, row
from app.text.segments import Code
from app.theme.icons import icon
from app.theme.theme import theme
from app.theme.tokens import RADIUS

HEAD_HEIGHT = 36
PADDING = 12
BELOW = 10  # free space below the block
COPIED_MS = 1500


class CodeView(QWidget):
    def __init__(self, segment: Code, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._segment = segment
        self._text = StillText(self)
        self._text.setLineWrapMode(StillText.LineWrapMode.NoWrap)
        self._text.setWordWrapMode(QTextOption.WrapMode.NoWrap)
        self._text.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        # Code reads from left to right whatever language surrounds it.
        self._text.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
        layout = QVBoxLayout(self)
        layout.setSpacing(0)
        layout.setContentsMargins(PADDING, 0, PADDING, 0)
        self._copy = icon_button("copy", tr("chat.copy_code"), size=16)
        self._copy.clicked.connect(self._copy_all)
        self._head = QWidget(self)
        self._head.setFixedHeight(HEAD_HEIGHT)
        self._language = label("", "small")
        self._head.setLayout(row(self._language, None, self._copy))
        layout.addWidget(self._head)
        layout.addWidget(self._text)
        self._below = layout
        self._copied = QTimer(self)
        self._copied.setSingleShot(True)
        self._copied.setInterval(COPIED_MS)
        self._copied.timeout.connect(lambda: self._copy.setIcon(icon("copy")))

    def controls(self) -> list[QWidget]:
        """What Tab reaches: the copy button of a block's first piece, and lines too long to see."""
        copy: list[QWidget] = [self._copy] if self._copy.isVisibleTo(self) else []
        return [*copy, self._text] if self._text.is_stop else copy

    def show_segment(self, segment: Code) -> None:
        self._segment = segment
        self._head.setVisible(segment.source is not None)
        self._language.setText(segment.language)
        self._text.setAccessibleName(tr("chat.code", language=segment.language or tr("chat.text")))
        self._copy.setIcon(icon("copy"))
        self._below.setContentsMargins(PADDING, 0, PADDING, BELOW + 2 if segment.last else 0)
        self._draw()

    def redraw(self) -> None:
        self._draw()

    def height_for(self, width: int) -> int:
        document = self._text.document()
        size = document.size()
        height = math.ceil(size.height())
        too_wide = document.idealWidth() > width - 2 * PADDING
        self._text.stop_here(stop=too_wide)
        if too_wide:
            height += self._text.horizontalScrollBar().sizeHint().height()
        head = HEAD_HEIGHT if self._segment.source is not None else 0
        return height + head + (PADDING + BELOW if self._segment.last else 0)

    def paintEvent(self, event: QPaintEvent) -> None:
        """A frame that is closed where the block begins and ends."""
        del event
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        radius = RADIUS.control
        top = 0.5 if self._segment.source is not None else -radius * 2.0
        bottom = self.height() - BELOW - 0.5 if self._segment.last else self.height() + radius * 2.0
        path = QPainterPath()
        path.addRoundedRect(QRectF(0.5, top, self.width() - 1, bottom - top), radius, radius)
        painter.fillPath(path, theme().qcolour("surface"))
        painter.setPen(QPen(theme().qcolour("line"), 1))
        painter.drawPath(path)
        painter.end()

    def _draw(self) -> None:
        document = self._text.document()
        document.setDefaultFont(theme().code_font())
        document.setDefaultStyleSheet(
            f"pre {{ margin: 0; color: {theme().colours.text}; }} {code_style()}"
        )
        family = theme().code_font().family()
        size = theme().code_font().pixelSize()
        self._text.setHtml(
            f"<pre style=\"font-family: '{family}'; font-size: {size}px; line-height: 140%\">"
            f"{self._segment.html}</pre>"
        )

    def _copy_all(self) -> None:
        if self._segment.source is not None:
            copy_text(self._segment.source)
            self._copy.setIcon(icon("check", "decode"))
            self._copied.start()
