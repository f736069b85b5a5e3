"""The sidebar: a new chat, the search, the list of chats, and the way to the other pages."""

from __future__ import annotations

from typing import Any, cast

from PySide6.QtCore import (
    QModelIndex,
    QPersistentModelIndex,
    QPoint,
    QRect,
    QRectF,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import QContextMenuEvent, QKeyEvent, QPainter, QPen, QTextCharFormat, QTextLayout
from PySide6.QtWidgets import (
    QAbstractItemView,
    QLineEdit,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from app.chat.sidebar_model import LINE, GroupLine, SidebarModel
from app.i18n import tr
from app.shell.widgets import button, clearable, icon_button, row
from app.store.records import ChatRow, Found
from app.theme.icons import icon, paint_icon
from app.theme.theme import theme
from app.theme.tokens import RADIUS, TYPE

LINE_HEIGHT = 36
FOUND_HEIGHT = 56
MENU_WIDTH = 28
BATCH = 1000
NARROWEST = 200


class _Delegate(QStyledItemDelegate):
    """Draws a line: a group's small name, a chat's title, or a found message with its words."""

    def sizeHint(
        self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> QSize:
        line = index.data(LINE)
        height = FOUND_HEIGHT if isinstance(line, Found) and line.message else LINE_HEIGHT
        del option
        return QSize(120, round(height * max(1.0, theme().scale)))

    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,
    ) -> None:
        line = index.data(LINE)
        drawn = cast("Any", option)  # Qt's own description leaves its fields out
        state: QStyle.StateFlag = drawn.state
        rect: QRect = drawn.rect
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if isinstance(line, GroupLine):
            self._paint_group(painter, rect, line, state)
        else:
            self._paint_entry(painter, rect, line, state)
        painter.restore()

    def _paint_group(
        self, painter: QPainter, rect: QRect, line: GroupLine, state: QStyle.StateFlag
    ) -> None:
        colours = theme()
        left = rect.left() + 10
        if line.collapsed is not None:
            name = "chevron-right" if line.collapsed else "chevron-down"
            box = QRectF(left - 2, rect.center().y() + 4 - 7, 14, 14)
            paint_icon(painter, name, colours.colour("text_2"), box)
            left += 16
            if state & QStyle.StateFlag.State_HasFocus:
                _focus_ring(painter, rect)
        painter.setFont(colours.font(TYPE.small, weight=600))
        painter.setPen(colours.qcolour("text_2"))
        area = QRect(left, rect.top() + 8, rect.right() - left - 8, rect.height() - 8)
        words = painter.fontMetrics().elidedText(
            line.words, Qt.TextElideMode.ElideRight, area.width()
        )
        painter.drawText(area, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, words)

    def _paint_entry(
        self, painter: QPainter, rect: QRect, line: ChatRow | Found, state: QStyle.StateFlag
    ) -> None:
        colours = theme()
        selected = bool(state & QStyle.StateFlag.State_Selected)
        hovered = bool(state & QStyle.StateFlag.State_MouseOver)
        if selected or hovered:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colours.qcolour("prefill_soft" if selected else "hover"))
            painter.drawRoundedRect(
                QRectF(rect).adjusted(2, 1, -2, -1), RADIUS.control, RADIUS.control
            )
        if state & QStyle.StateFlag.State_HasFocus:
            _focus_ring(painter, rect)
        area = rect.adjusted(10, 0, -10, 0)
        if isinstance(line, ChatRow):
            if selected or hovered:
                area.setRight(area.right() - MENU_WIDTH)
                box = menu_box(rect)
                paint_icon(painter, "ellipsis", colours.colour("text_2"), box)
            elif line.pinned:
                area.setRight(area.right() - 20)
                box = QRectF(rect.right() - 24, rect.center().y() - 6, 14, 14)
                paint_icon(painter, "pin", colours.colour("text_2"), box)
        painter.setFont(colours.font(TYPE.body))
        painter.setPen(colours.qcolour("text"))
        title = (line.title or tr("chat.untitled")).replace("\n", " ")
        flags = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        if isinstance(line, Found) and line.message is not None:
            half = rect.height() // 2
            top = QRect(area.left(), rect.top() + 6, area.width(), half - 6)
            below = QRect(area.left(), rect.top() + half, area.width(), half - 6)
            self._paint_snippet(painter, below, line)
            painter.setFont(colours.font(TYPE.body))
            painter.setPen(colours.qcolour("text"))
            area = top
        words = painter.fontMetrics().elidedText(title, Qt.TextElideMode.ElideRight, area.width())
        painter.drawText(area, flags, words)

    def _paint_snippet(self, painter: QPainter, area: QRect, found: Found) -> None:
        """The found words stand out."""
        painter.setFont(theme().font(TYPE.small))
        mode = Qt.TextElideMode.ElideRight
        words = painter.fontMetrics().elidedText(found.snippet, mode, area.width())
        layout = QTextLayout(words, theme().font(TYPE.small))
        formats: list[QTextLayout.FormatRange] = []
        for start, end in found.spans:
            span: Any = QTextLayout.FormatRange()
            span.start, span.length = start, end - start
            char = QTextCharFormat()
            char.setForeground(theme().qcolour("prefill"))
            char.setFontWeight(600)
            span.format = char
            formats.append(span)
        layout.setFormats(formats)
        layout.beginLayout()
        line = layout.createLine()
        line.setLineWidth(10_000)
        layout.endLayout()
        painter.setPen(theme().qcolour("text_2"))
        painter.setClipRect(area)
        layout.draw(painter, area.topLeft().toPointF())
        painter.setClipping(False)


def menu_box(rect: QRect) -> QRectF:
    return QRectF(rect.right() - MENU_WIDTH, rect.center().y() - 8, 16, 16)


def _focus_ring(painter: QPainter, rect: QRect) -> None:
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(theme().qcolour("focus"), 2))
    painter.drawRoundedRect(QRectF(rect).adjusted(2, 2, -2, -2), RADIUS.control, RADIUS.control)


class ChatList(QListView):
    """Signals: `opened` (index), `menu_asked` (index and where), `rename_asked`, `delete_asked`."""

    opened = Signal(QModelIndex)
    menu_asked = Signal(QModelIndex, QPoint)
    rename_asked = Signal(QModelIndex)
    delete_asked = Signal(QModelIndex)

    def __init__(self, model: SidebarModel) -> None:
        super().__init__()
        self.setModel(model)
        self.setItemDelegate(_Delegate(self))
        self.setMouseTracking(True)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setUniformItemSizes(True)
        # Twenty thousand chats are laid out a part at a time, between events.
        self.setLayoutMode(QListView.LayoutMode.Batched)
        self.setBatchSize(BATCH)
        self.setAccessibleName(tr("sidebar.chats"))
        self.clicked.connect(self._on_click)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        index = self.currentIndex()
        key = event.key()
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space) and index.isValid():
            self.opened.emit(index)
        elif key == Qt.Key.Key_F2 and index.isValid():
            self.rename_asked.emit(index)
        elif key == Qt.Key.Key_Delete and index.isValid():
            self.delete_asked.emit(index)
        elif _asks_for_menu(event) and index.isValid():
            place = self.visualRect(index).center()
            self.menu_asked.emit(index, self.viewport().mapToGlobal(place))
        else:
            super().keyPressEvent(event)

    def _on_click(self, index: QModelIndex) -> None:
        place = self.mapFromGlobal(self.cursor().pos())
        rect = self.visualRect(index)
        if isinstance(index.data(LINE), ChatRow) and menu_box(rect).adjusted(-6, -8, 8, 8).contains(
            place.toPointF()
        ):
            self.menu_asked.emit(index, self.viewport().mapToGlobal(rect.bottomRight()))
        else:
            self.opened.emit(index)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """The menu of what is pointed at. Not every platform sends one for the keys that ask for a
        menu: these are handled as keys."""
        index = self.indexAt(event.pos())
        if event.reason() != QContextMenuEvent.Reason.Keyboard and index.isValid():
            self.menu_asked.emit(index, event.globalPos())


def _asks_for_menu(event: QKeyEvent) -> bool:
    shifted = event.modifiers() == Qt.KeyboardModifier.ShiftModifier
    return event.key() == Qt.Key.Key_Menu or (event.key() == Qt.Key.Key_F10 and shifted)


class SidebarView(QWidget):
    def __init__(self, model: SidebarModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("kind", "sidebar")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.new_chat = button(tr("sidebar.new_chat"), icon_name="plus")
        self.new_folder = icon_button("folder-plus", tr("sidebar.new_folder"))
        self.more = icon_button("ellipsis", tr("sidebar.more"))
        self.search = QLineEdit()
        self.search.setPlaceholderText(tr("sidebar.search"))
        self.search.setAccessibleName(tr("sidebar.search"))
        clearable(self.search)
        self.search.addAction(icon("search"), QLineEdit.ActionPosition.LeadingPosition)
        self.list = ChatList(model)
        self.navigation = QVBoxLayout()
        self.navigation.setSpacing(2)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(12, 12, 12, 12)
        layout.setSpacing(8)
        head = row(self.new_chat, self.new_folder, self.more, spacing=4)
        head.setStretch(0, 1)
        layout.addLayout(head)
        layout.addWidget(self.search)
        layout.addWidget(self.list, 1)
        layout.addLayout(self.navigation)

    def minimumSizeHint(self) -> QSize:
        """Never narrower than its words, in any size of letters."""
        hint = super().minimumSizeHint()
        return QSize(max(NARROWEST, hint.width()), hint.height())
