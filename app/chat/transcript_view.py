"""The transcript: a column of rows of which only the visible ones exist as widgets.

Rows are measured when they come into view and estimated before. The place that a reader looks at
stays where it is, whatever is measured, added or removed above; at the end, new text scrolls.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from itertools import accumulate

from PySide6.QtCore import QEvent, QObject, QRect, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import QAbstractScrollArea, QApplication, QFrame, QWidget

from app.chat.rows import INSET, Row, RowWidget
from app.i18n import tr
from app.shell.widgets import icon_button
from app.theme.theme import theme
from app.theme.tokens import COLUMN_WIDTH, RADIUS, SPACE

# Widgets are made this far beyond the visible part, so that scrolling a little makes none.
MARGIN = 240
EDGE = 24
STEP = 40
# Closer to the end than this counts as being there.
NEAR_END = 8
MOST_PASSES = 6
REUSED = ("prose", "plain", "thought", "code")
MOST_SPARE = 12

MakeWidget = Callable[[Row, QWidget], RowWidget]
Anchor = tuple[Row, int]


class TranscriptView(QAbstractScrollArea):
    """`hovered` is sent with the id of the message under the pointer, or None."""

    hovered = Signal(object)

    def __init__(self, make_widget: MakeWidget, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._make_widget = make_widget
        self._rows: list[Row] = []
        self._offsets: list[int] = [0]
        self._at_end = True
        self._arranging = False
        self._shown: dict[int, RowWidget] = {}  # by the row's id
        self._spare: dict[str, list[RowWidget]] = {}  # by the row's kind
        self._active: int | None = None
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        # Always there, so that the column never moves.
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOn)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName(tr("chat.transcript"))
        self.viewport().setProperty("kind", "page")
        self.verticalScrollBar().setSingleStep(STEP)
        self.verticalScrollBar().actionTriggered.connect(self._reader_scrolls)
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.setInterval(0)
        self._later.timeout.connect(self.arrange)
        self._to_end = icon_button("arrow-down", tr("chat.to_end"))
        self._to_end.setParent(self)
        self._to_end.setProperty("kind", "float")
        self._to_end.clicked.connect(self.scroll_to_end)
        self._to_end.hide()

    # What is shown

    @property
    def rows(self) -> Sequence[Row]:
        return self._rows

    @property
    def follows(self) -> bool:
        """Whether new text scrolls into view."""
        return self._at_end

    def set_rows(self, rows: Sequence[Row]) -> None:
        """Rows that were there before keep their widgets, their selection and their place."""
        known = {row.id for row in rows}
        anchor = self._anchor(known)
        self._rows = list(rows)
        self._arranging = True  # a control that goes hands the focus on, which scrolls
        for key in [key for key in self._shown if key not in known]:
            self._drop(key)
        self._arranging = False
        self._arrange_from(anchor)

    def row_changed(self, row: Row) -> None:
        """The row's content is another one: it is shown and measured again, soon."""
        row.measured, row.width = False, 0
        widget = self._shown.get(row.id)
        if widget is not None:
            widget.show_row(row)
        self.arrange_soon()

    def widget_of(self, row: Row) -> RowWidget | None:
        return self._shown.get(row.id)

    def redraw(self) -> None:
        """After the theme has changed."""
        for row in self._rows:
            row.measured = False
        for widget in self._shown.values():
            widget.redraw()
        for key in list(self._spare):
            for widget in self._spare.pop(key):
                widget.deleteLater()
        self.viewport().update()
        self.arrange_soon()

    def arrange_soon(self) -> None:
        if not self._later.isActive():
            self._later.start()

    # Scrolling

    def scroll_to_end(self) -> None:
        self._at_end = True
        self.arrange()

    def scroll_to(self, row: Row) -> None:
        """Brings the row near the top and stops following."""
        if row in self._rows:
            self._at_end = False
            self._arrange_from((row, SPACE.section))

    def reveal(self, widget: QWidget, part: QRect) -> None:
        """No further than it takes to see that part of a row's widget."""
        if self._arranging or not self.viewport().isAncestorOf(widget):
            return
        top = widget.mapTo(self.viewport(), part.topLeft()).y() - EDGE
        below = top + part.height() + 2 * EDGE - self.viewport().height()
        move = top if top < 0 else max(0, min(below, top))
        if move:
            self.verticalScrollBar().setValue(self.verticalScrollBar().value() + move)
            self._reader_scrolls()

    def wheelEvent(self, event: QWheelEvent) -> None:
        super().wheelEvent(event)
        self._reader_scrolls()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if not self.scroll_by_key(event.key()):
            super().keyPressEvent(event)

    def scroll_by_key(self, key: int) -> bool:
        """The keys that scroll, here and from the composer."""
        bar = self.verticalScrollBar()
        steps = {
            Qt.Key.Key_PageUp: -bar.pageStep() + STEP,
            Qt.Key.Key_PageDown: bar.pageStep() - STEP,
            Qt.Key.Key_Up: -STEP,
            Qt.Key.Key_Down: STEP,
            Qt.Key.Key_Home: -bar.maximum(),
            Qt.Key.Key_End: bar.maximum(),
        }
        step = steps.get(Qt.Key(key))
        if step is None:
            return False
        bar.setValue(bar.value() + step)
        self._reader_scrolls()
        return True

    def _reader_scrolls(self, _action: int = 0) -> None:
        """The reader decides whether the end is followed: by being there or not."""
        bar = self.verticalScrollBar()
        value = max(bar.minimum(), min(bar.sliderPosition(), bar.maximum()))
        self._at_end = value >= bar.maximum() - NEAR_END
        self._show_to_end()

    # Layout

    def arrange(self) -> None:
        self._arrange_from(self._anchor())

    def _anchor(self, known: Collection[int] | None = None) -> Anchor | None:
        """The first visible row that stays, and how far its top is below the viewport's."""
        if not self._rows or self._at_end:
            return None
        value = self.verticalScrollBar().value()
        first = max(0, min(bisect_right(self._offsets, value) - 1, len(self._rows) - 1))
        for index in range(first, len(self._rows)):
            if known is None or self._rows[index].id in known:
                return self._rows[index], self._offsets[index] - value
        return None

    def _arrange_from(self, anchor: Anchor | None) -> None:
        if self._arranging:
            return
        self._arranging = True
        try:
            self._later.stop()
            width = self.column_width()
            for _ in range(MOST_PASSES):
                self._offsets = list(
                    accumulate((self._height(row, width) for row in self._rows), initial=EDGE)
                )
                self._set_scroll(anchor)
                if not self._make_visible():
                    break
            self._place()
        finally:
            self._arranging = False
        self._show_to_end()
        self.viewport().update()

    def _height(self, row: Row, width: int) -> int:
        if row.measured and row.width == width:
            return row.height
        widget = self._shown.get(row.id)
        if widget is not None:
            row.height = row.gap + widget.height_for(width)
            row.width, row.measured = width, True
        elif row.width != width:
            row.height, row.width = row.gap + row.estimate(width), width
        return row.height

    def _set_scroll(self, anchor: Anchor | None) -> None:
        bar = self.verticalScrollBar()
        height = self.viewport().height()
        bar.setPageStep(height)
        bar.setRange(0, max(0, self._offsets[-1] + EDGE - height))
        bar.setEnabled(bar.maximum() > 0)
        if anchor is None:
            bar.setValue(bar.maximum() if self._at_end else bar.value())
        else:
            row, below = anchor
            bar.setValue(self._offsets[self._rows.index(row)] - below)

    def _visible_range(self) -> range:
        value = self.verticalScrollBar().value()
        first = max(0, bisect_right(self._offsets, value - MARGIN) - 1)
        last = bisect_right(self._offsets, value + self.viewport().height() + MARGIN)
        return range(first, min(last, len(self._rows)))

    def _make_visible(self) -> bool:
        """Makes the widgets that are missing; whether a height turned out to be another one."""
        visible = self._visible_range()
        width = self.column_width()
        wanted = {self._rows[index].id for index in visible}
        changed = False
        for index in visible:
            row = self._rows[index]
            if row.id in self._shown:
                continue
            widget = self._take(row)
            widget.show_row(row)
            widget.set_active(row.message == self._active)
            self._shown[row.id] = widget
            before = row.height
            row.measured = False
            changed |= self._height(row, width) != before
        for key in [key for key in self._shown if key not in wanted]:
            if not _in_use(self._shown[key]):
                self._drop(key)
        return changed

    def _place(self) -> None:
        value = self.verticalScrollBar().value()
        width = self.column_width()
        left = (self.viewport().width() - width) // 2
        for row, offset in zip(self._rows, self._offsets, strict=False):
            widget = self._shown.get(row.id)
            if widget is None:
                continue
            top, height = offset + row.gap - value, row.height - row.gap
            widget.setGeometry(left - INSET, top, width + 2 * INSET, height)
            if not widget.isVisible():
                widget.show()

    def column_width(self) -> int:
        return max(200, min(COLUMN_WIDTH, self.viewport().width() - 2 * EDGE))

    def _take(self, row: Row) -> RowWidget:
        """A widget for the row: one that is not needed any more, or a new one."""
        if spare := self._spare.get(row.kind):
            widget = spare.pop()
            widget.message = row.message
            return widget
        widget = self._make_widget(row, self.viewport())
        widget.installEventFilter(self)
        return widget

    def _drop(self, key: int) -> None:
        widget = self._shown.pop(key)
        widget.hide()
        spare = self._spare.setdefault(widget.kind, [])
        # Texts are what there is most of, and making one takes much longer than filling one.
        if widget.kind in REUSED and len(spare) < MOST_SPARE:
            spare.append(widget)
        else:
            widget.removeEventFilter(self)
            widget.deleteLater()

    # Events

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.arrange()
        self._to_end.setGeometry(
            (self.viewport().width() - 36) // 2, self.viewport().height() - 48, 36, 36
        )

    def scrollContentsBy(self, dx: int, dy: int) -> None:
        del dx, dy
        if not self._arranging:
            self._arranging = True
            try:
                moved = self._make_visible()
            finally:
                self._arranging = False
            if moved:
                # What was estimated above the view was wrong: measured, the place is kept.
                self.arrange()
            else:
                self._place()
                self.viewport().update()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Enter and isinstance(watched, RowWidget):
            self._set_active(watched.message)
        elif event.type() == QEvent.Type.LayoutRequest and isinstance(watched, RowWidget):
            self.arrange_soon()
        return super().eventFilter(watched, event)

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self._set_active(None)

    def _set_active(self, message: int | None) -> None:
        if message == self._active:
            return
        self._active = message
        for widget in self._shown.values():
            widget.set_active(widget.message == message)
        self.hovered.emit(message)

    def _show_to_end(self) -> None:
        bar = self.verticalScrollBar()
        self._to_end.setVisible(not self._at_end and bar.value() < bar.maximum() - 2 * STEP)
        self._to_end.raise_()

    def paintEvent(self, event: QPaintEvent) -> None:
        """What a person wrote stands on a card, which its rows share."""
        del event
        painter = QPainter(self.viewport())
        painter.fillRect(self.viewport().rect(), theme().qcolour("bg"))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme().qcolour("surface"))
        value = self.verticalScrollBar().value()
        width = self.column_width()
        left = (self.viewport().width() - width) / 2
        for card in self._cards():
            top = self._offsets[card.start] + self._rows[card.start].gap - value
            bottom = self._offsets[card.stop] - value
            if bottom < 0 or top > self.viewport().height():
                continue
            painter.drawRoundedRect(
                QRectF(left - 16, top - 10, width + 32, bottom - top + 20),
                RADIUS.card,
                RADIUS.card,
            )
        painter.end()

    def _cards(self) -> list[range]:
        """The runs of rows in view that share a card."""
        visible = self._visible_range()
        cards: list[range] = []
        for index in visible:
            row = self._rows[index]
            if not row.card:
                continue
            if cards and cards[-1].stop == index and self._rows[index - 1].message == row.message:
                cards[-1] = range(cards[-1].start, index + 1)
            else:
                start = index
                # The card may begin above what is in view.
                while start and self._rows[start - 1].message == row.message:
                    start -= 1
                cards.append(range(start, index + 1))
        return cards

    def sizeHint(self) -> QSize:
        return QSize(COLUMN_WIDTH + 2 * EDGE, 480)


def _in_use(widget: QWidget) -> bool:
    """A widget with the focus stays, wherever it is: the reader's selection is in it."""
    focus = QApplication.focusWidget()
    return focus is not None and (focus is widget or widget.isAncestorOf(focus))
