"""Somebody with a keyboard only: goes to every control of a window, works it, sees what happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from PySide6.QtCore import QAbstractItemModel, QRect, Qt
from PySide6.QtGui import QAction, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractScrollArea,
    QAbstractSlider,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QLabel,
    QLineEdit,
    QListView,
    QMainWindow,
    QMenu,
    QPlainTextEdit,
    QScrollArea,
    QSplitterHandle,
    QTextBrowser,
    QWidget,
)
from shiboken6 import Shiboken

INTERACTIVE = (
    QAbstractButton, QAbstractSpinBox, QComboBox, QLineEdit, QPlainTextEdit, QListView,
)  # fmt: skip
# Parts of Qt's own controls: their owners are what is reached.
INSIDE = ("qt_spinbox_lineedit", "qt_edit_menu", "_q_qlineeditclearaction")
MOST_TABS = 400
OVERLAP = 0.25  # of the lower one's height: more is one line
EFFECT_MS = 1500

Key = tuple[str, ...]


def controls(window: QWidget) -> list[QWidget]:
    """What can be worked in a window: its controls, links, and what scrolls without having any."""
    return [
        widget
        for widget in window.findChildren(QWidget)
        if widget.isVisible()
        and widget.window() is window
        and (isinstance(widget, INTERACTIVE) or has_links(widget) or scrolls(widget))
        and widget.objectName() not in INSIDE
        and not isinstance(widget.parent(), QLineEdit | QComboBox)
        and "QComboBoxListView" not in type(widget).__name__
    ]


def has_links(widget: QWidget) -> bool:
    return isinstance(widget, QTextBrowser) and "<a href" in widget.toHtml()


def scrolls(widget: QWidget) -> bool:
    """Whether it hides a part of what it holds."""
    if not isinstance(widget, QAbstractScrollArea) or isinstance(
        widget, QListView | QPlainTextEdit
    ):
        return False
    bars = (widget.verticalScrollBar(), widget.horizontalScrollBar())
    return any(bar.minimum() < bar.maximum() and bar.isVisible() for bar in bars)


def keyed(found: Sequence[QWidget]) -> dict[Key, QWidget]:
    """The controls by what they are, are called and lie in, so that another start finds them."""
    named: dict[Key, QWidget] = {}
    for widget in found:
        name = widget.accessibleName()
        if isinstance(widget, QTextBrowser):
            name = widget.toPlainText()[:40]
        key: Key = (type(widget).__name__, name, *(type(up).__name__ for up in parents(widget)))
        number = 0
        while (*key, str(number)) in named:
            number += 1
        named[*key, str(number)] = widget
    return named


def parents(widget: QWidget) -> Iterator[QWidget]:
    parent = widget.parentWidget()
    while parent is not None:
        yield parent
        parent = parent.parentWidget()


def about(key: Key) -> str:
    return f"{key[0]} “{key[1]}” in {' < '.join(key[2:5])}"


@dataclass(frozen=True)
class Stop:
    """A control that Tab stopped at: its address, since it may be gone by the end of a tour, and
    the places of all that it lies in, from the window inwards, each within the one before."""

    address: int
    name: str
    places: tuple[tuple[int, QRect], ...]

    @classmethod
    def at(cls, widget: QWidget) -> Stop:
        inwards = [*reversed([up for up in parents(widget) if not up.isWindow()]), widget]
        places = tuple((address(each), _place_in_parent(each)) for each in inwards)
        name = f"{type(widget).__name__} “{widget.accessibleName()}”"
        return cls(address(widget), name, places)

    def is_before(self, other: Stop) -> bool:
        """In reading order: above, or to the left in one line, where the two part."""
        for (mine, here), (its, there) in zip(self.places, other.places, strict=False):
            if mine != its:
                shared = min(here.bottom(), there.bottom()) - max(here.top(), there.top())
                if shared <= OVERLAP * min(here.height(), there.height()):
                    return here.top() < there.top()
                return here.left() <= there.left()
        return len(self.places) <= len(other.places)  # what holds the other comes first


def _place_in_parent(widget: QWidget) -> QRect:
    """As if nothing had been scrolled."""
    area = next((up for up in list(parents(widget))[1:]), None)
    place = widget.geometry()
    if isinstance(area, QAbstractScrollArea) and not isinstance(area, QScrollArea):
        place.translate(0, area.verticalScrollBar().value())
    return place


class Keyboard:
    """Presses keys in a window that is in front, as the platform would send them."""

    def __init__(self, window: QMainWindow) -> None:
        self.window = window
        window.activateWindow()
        while not window.isActiveWindow():
            QApplication.processEvents()

    def press(
        self, key: Qt.Key, modifiers: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier
    ) -> None:
        QTest.keyClick(self.window.windowHandle(), key, modifiers)

    def tour(self, first: QWidget) -> tuple[list[Stop], set[int]]:
        """Where Tab stops from the first control until it comes back, in this order, and the
        addresses of all that were reached so."""
        first.setFocus(Qt.FocusReason.TabFocusReason)
        order = [Stop.at(first)]
        reached = {address(first)}
        for _ in range(MOST_TABS):
            self.press(Qt.Key.Key_Tab)
            focus = QApplication.focusWidget()
            assert focus is not None, "the focus is lost"
            assert _is_seen(focus), f"unseen: {focus} {focus.accessibleName()}"
            place = address(focus)
            if place == order[0].address:
                return order, reached
            # A text with links is a stop for each of them.
            if place != order[-1].address:
                assert place not in reached, (
                    f"Tab goes in a ring: {[one.name for one in order[-3:]]} {focus}"
                )
                order.append(Stop.at(focus))
            reached.add(place)
            proxy = cast("QWidget | None", focus.focusProxy())
            if proxy is not None:
                reached.add(address(proxy))
        raise AssertionError("Tab does not come back")

    def go_to(self, widget: QWidget) -> None:
        """By Tab's own means; among exclusive choices by the arrows."""
        if isinstance(widget, QAbstractButton) and is_choice(widget):
            chosen = next(made for made in widget.group().buttons() if made.isChecked())
            chosen.setFocus(Qt.FocusReason.TabFocusReason)
            for _ in widget.group().buttons():
                if QApplication.focusWidget() is widget:
                    return
                self.press(Qt.Key.Key_Right)
            return
        widget.setFocus(Qt.FocusReason.TabFocusReason)


def address(widget: QWidget) -> int:
    return Shiboken.getCppPointer(widget)[0]


def _is_seen(widget: QWidget) -> bool:
    """What holds others is covered by them."""
    covered = isinstance(widget, QAbstractScrollArea) and widget.isVisible()
    return covered or not widget.visibleRegion().isEmpty()


def is_choice(widget: QAbstractButton) -> bool:
    group = widget.group()
    return group is not None and group.exclusive()


def work(keyboard: Keyboard, widget: QWidget) -> bool | None:
    """Works a control by the keys that it is worked with. Whether its own value changed; None
    where something else must."""
    match widget:
        case QComboBox():
            return _moves(keyboard, widget)
        case QAbstractSpinBox():
            return _moves(keyboard, widget)
        case QPlainTextEdit() if widget.isReadOnly():
            keyboard.press(Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
            return widget.textCursor().hasSelection()
        case QLineEdit():
            return _types(keyboard, widget.text)
        case QPlainTextEdit():
            return _types(keyboard, widget.toPlainText)
        case QListView():
            before = widget.currentIndex()
            for key in (Qt.Key.Key_Home, Qt.Key.Key_End):
                keyboard.press(key)
                if widget.currentIndex() != before:
                    return True
            return False
        case QTextBrowser() if has_links(widget):
            keyboard.press(Qt.Key.Key_Tab)  # to its first link
            keyboard.press(Qt.Key.Key_Return)
            return None
        case QAbstractScrollArea():
            return _scrolls(keyboard, widget)
        case QAbstractButton() if is_choice(widget):
            if not widget.isChecked():
                return False  # the arrows should have chosen it
            keyboard.press(Qt.Key.Key_Right)
            keyboard.press(Qt.Key.Key_Left)
            return widget.hasFocus() and widget.isChecked()
        case _:
            keyboard.press(Qt.Key.Key_Space)
            return None


def _moves(keyboard: Keyboard, widget: QWidget) -> bool:
    """Whether the arrows change it. It may be made anew, but then has the focus again."""
    name, before = widget.accessibleName(), _value(widget)
    for key in (Qt.Key.Key_Down, Qt.Key.Key_Up):
        keyboard.press(key)
        now = QApplication.focusWidget()
        if now is None or now.accessibleName() != name:
            return False
        if _value(now) != before:
            return True
    return False


def _types(keyboard: Keyboard, text: Callable[[], str]) -> bool:
    before = text()
    keyboard.press(Qt.Key.Key_A)
    typed = text() != before and "a" in text()
    keyboard.press(Qt.Key.Key_Backspace)
    return typed


def _scrolls(keyboard: Keyboard, area: QAbstractScrollArea) -> bool:
    bars = (area.verticalScrollBar(), area.horizontalScrollBar())
    before = [bar.value() for bar in bars]
    for key in (Qt.Key.Key_PageDown, Qt.Key.Key_PageUp, Qt.Key.Key_Right, Qt.Key.Key_Left):
        keyboard.press(key)
        if [bar.value() for bar in bars] != before:
            return True
    return False


def seen(window: QMainWindow) -> tuple[Any, ...]:
    """What somebody can observe now: the window's controls and words, pop-ups, the clipboard."""
    popup = QApplication.activePopupWidget()
    shown = [
        (address(widget), _value(widget))
        for widget in QApplication.allWidgets()
        if widget.isVisible()
    ]
    return (
        id(popup) if popup else 0,
        window.isVisible(),
        QGuiApplication.clipboard().text(),
        *shown,
    )


def _value(widget: QWidget) -> object:
    match widget:
        case QAbstractButton():
            return widget.text(), widget.isChecked(), widget.isEnabled()
        case QLabel():
            return widget.text()
        case QComboBox():
            return widget.currentText()
        case QAbstractSpinBox():
            return widget.text()
        case QLineEdit():
            return widget.text()
        case QPlainTextEdit() | QTextBrowser():
            return widget.toPlainText()
        case QListView():
            model = widget.model()
            return _rows(model), widget.currentIndex().row()
        case QAbstractSlider():
            return widget.value()
        case QSplitterHandle():
            return widget.x()
        case _:
            return None


def _rows(model: QAbstractItemModel) -> object:
    return [model.index(row, 0).data() for row in range(min(50, model.rowCount()))]


def open_menu() -> QMenu | None:
    popup = QApplication.activePopupWidget()
    return popup if isinstance(popup, QMenu) else None


def entries(menu: QMenu) -> list[QAction]:
    return [one for one in menu.actions() if not one.isSeparator() and one.isEnabled()]


def choose(keyboard: Keyboard, menu: QMenu, path: Sequence[str]) -> list[str] | None:
    """Goes to an entry by its words, through submenus, and chooses it. Of an entry that opens
    a submenu, opens it and gives the words that are there."""
    for depth, words in enumerate(path):
        here = next(one for one in entries(menu) if one.text() == words)
        for _ in range(len(menu.actions()) + 1):
            if menu.activeAction() is here:
                break
            keyboard.press(Qt.Key.Key_Down)
        assert menu.activeAction() is here, f"the arrows do not reach “{words}”"
        below = here.menu()
        if isinstance(below, QMenu):
            keyboard.press(Qt.Key.Key_Right)
            assert below.isVisible(), f"the arrows do not open “{words}”"
            menu = below
            if depth == len(path) - 1:
                return [one.text() for one in entries(menu)]
    keyboard.press(Qt.Key.Key_Return)
    return None
