"""Text that is read: one segment of a message, selectable, its links opened only on a click."""

from __future__ import annotations

import math
from typing import Any

from PySide6.QtCore import QByteArray, QRectF, QSize, Qt, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication, QImage, QPainter, QWheelEvent
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QFrame, QTextBrowser, QWidget

from app.chat.formula_cache import FormulaCache
from app.i18n import tr
from app.shell.reveal import reveal
from app.text.formulas import Drawing
from app.text.markdown import is_web
from app.text.segments import Formula, Plain, Prose
from app.theme.theme import theme
from app.theme.tokens import TYPE


def document_style(*, secondary: bool) -> str:
    """The style of a segment's HTML; Qt wants colours and sizes spelled out."""
    colours = theme().colours
    text = colours.text_2 if secondary else colours.text
    size = theme().px(TYPE.body if secondary else TYPE.transcript)
    code = theme().px(TYPE.code)
    mono = theme().code_font().family()
    height = round(TYPE.line_height * size)
    return f"""
    body, p, li, td, th, blockquote {{ font-size: {size}px; color: {text}; }}
    p, li {{ line-height: {height}px; -qt-line-height-type: minimum; margin-top: 0; }}
    p {{ margin-bottom: 12px; }}
    li {{ margin-bottom: 4px; }}
    .plain {{ white-space: pre-wrap; margin-bottom: 0; }}
    .formula {{ margin-left: 24px; }}
    h1 {{ font-size: {size + 6}px; font-weight: 600; margin-top: 16px; margin-bottom: 8px; }}
    h2 {{ font-size: {size + 3}px; font-weight: 600; margin-top: 16px; margin-bottom: 8px; }}
    h3, h4, h5, h6 {{ font-size: {size}px; font-weight: 600;
                     margin-top: 12px; margin-bottom: 6px; }}
    ul, ol {{ margin-top: 0; margin-bottom: 8px; }}
    a {{ color: {colours.prefill}; }}
    blockquote {{ margin-left: 16px; margin-right: 0; color: {colours.text_2}; }}
    blockquote p {{ color: {colours.text_2}; }}
    code {{ font-family: "{mono}"; font-size: {code}px; background-color: {colours.hover}; }}
    pre {{ font-family: "{mono}"; font-size: {code}px; background-color: {colours.surface};
           margin-bottom: 10px; }}
    table {{ border-color: {colours.line}; margin-top: 8px; margin-bottom: 12px; }}
    th {{ background-color: {colours.surface}; font-weight: 600; }}
    {code_style()}
    """


def code_style() -> str:
    colours = theme().colours
    return f"""
    .k {{ color: {colours.code_keyword}; }} .s {{ color: {colours.code_string}; }}
    .m {{ color: {colours.code_number}; }} .f {{ color: {colours.code_name}; }}
    .c {{ color: {colours.code_comment}; }}
    """


class StillText(QTextBrowser):
    """A text without scroll bars of its own: as high as what it says, the wheel goes through."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("kind", "prose")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setOpenLinks(False)
        self.setTabChangesFocus(True)
        self.setUndoRedoEnabled(False)
        self.document().setDocumentMargin(0)
        flags = Qt.TextInteractionFlag
        self.setTextInteractionFlags(flags.TextBrowserInteraction | flags.TextSelectableByKeyboard)
        self.stop_here(stop=False)
        self.anchorClicked.connect(open_link)

    def stop_here(self, *, stop: bool) -> None:
        """Clicking selects; Tab goes to links and to what must be scrolled, not to each text."""
        policy = Qt.FocusPolicy
        self.setFocusPolicy(policy.StrongFocus if stop else policy.ClickFocus)

    @property
    def is_stop(self) -> bool:
        return self.focusPolicy() == Qt.FocusPolicy.StrongFocus

    def loadResource(self, type: int, name: QUrl | str) -> Any:  # noqa: A002  # Qt's own name
        """Nothing is ever read from disk or fetched for a message."""
        del type, name
        return None

    def focusNextPrevChild(self, next: bool) -> bool:  # noqa: A002  # Qt's own name
        """Goes through the links before it leaves; the window does not hear of these."""
        moved = super().focusNextPrevChild(next)
        if moved and self.hasFocus():
            reveal(self)
        return moved

    def wheelEvent(self, event: QWheelEvent) -> None:
        horizontal = abs(event.angleDelta().x()) > abs(event.angleDelta().y())
        if horizontal and self.horizontalScrollBar().maximum() > 0:
            super().wheelEvent(event)
        else:
            event.ignore()


class ProseView(StillText):
    """Shows a Prose or Plain segment; formulas appear where they stand once they are drawn."""

    def __init__(
        self, formulas: FormulaCache, *, secondary: bool = False, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setLineWrapMode(StillText.LineWrapMode.FixedPixelWidth)
        self._formulas = formulas
        self._secondary = secondary
        self._segment: Prose | Plain | None = None
        self._images: dict[str, QImage] = {}
        self.setAccessibleName(tr("chat.message_text"))

    def show_segment(self, segment: Prose | Plain) -> None:
        self._segment = segment
        self.stop_here(stop=isinstance(segment, Prose) and "<a href" in segment.html)
        self._draw()

    def height_for(self, width: int) -> int:
        # A fixed width, because a widget that is not shown yet lays out for a width of its own.
        if self.lineWrapColumnOrWidth() != width:
            self.setLineWrapColumnOrWidth(width)
        return math.ceil(self.document().size().height())

    def redraw(self) -> None:
        """After the theme or a formula has changed."""
        self._draw()

    def loadResource(self, type: int, name: QUrl | str) -> Any:  # noqa: A002  # Qt's own name
        del type
        address = name.toString() if isinstance(name, QUrl) else name
        return self._images.get(address)

    def _draw(self) -> None:
        segment = self._segment
        if segment is None:
            return
        document = self.document()
        document.setDefaultStyleSheet(document_style(secondary=self._secondary))
        if isinstance(segment, Plain):
            self.setHtml(f'<p class="plain">{_escaped(segment.text)}</p>')
            return
        html = segment.html
        self._images = {}
        for number, formula in enumerate(dict.fromkeys(segment.formulas)):
            drawing = self._formulas.drawing(formula)
            mark = f'<img src="{_escaped(formula.key)}">'
            if drawing is None:
                html = html.replace(mark, f"<code>{_escaped(formula.latex)}</code>")
                continue
            image = formula_image(formula, drawing, self.devicePixelRatioF())
            self._images[f"formula:{number}"] = image
            size = image.deviceIndependentSize()
            html = html.replace(
                mark,
                f'<img src="formula:{number}" width="{round(size.width())}" '
                f'height="{round(size.height())}" style="vertical-align: middle">',
            )
        self.setHtml(html)


def open_link(address: QUrl) -> None:
    if is_web(address.toString()):
        QDesktopServices.openUrl(address)


def formula_image(formula: Formula, drawing: Drawing, ratio: float) -> QImage:
    """The formula in the text's colour, its baseline in the middle of the image.

    Qt centres an image in a line on the baseline.
    """
    scale = theme().scale
    half = max(drawing.rise, drawing.depth) * scale
    above = drawing.rise * scale
    height = (drawing.rise + drawing.depth) * scale if formula.display else half * 2
    size = QSize(math.ceil(drawing.width * scale) + 2, math.ceil(height) + 2)
    image = QImage(size * ratio, QImage.Format.Format_ARGB32_Premultiplied)
    image.setDevicePixelRatio(ratio)
    image.fill(Qt.GlobalColor.transparent)
    svg = drawing.svg.replace("#000", theme().colours.text)
    painter = QPainter(image)
    top = 1.0 if formula.display else 1 + half - above
    QSvgRenderer(QByteArray(svg.encode())).render(
        painter,
        QRectF(1, top, drawing.width * scale, (drawing.rise + drawing.depth) * scale),
    )
    painter.end()
    return image


def _escaped(text: str) -> str:
    from html import escape

    return escape(text)


def copy_text(text: str) -> None:
    QGuiApplication.clipboard().setText(text)
