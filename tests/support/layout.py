"""Finds what a person would call ugly in a window's layout: clipped words and overlap."""

from __future__ import annotations

import re
from collections.abc import Iterator

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractScrollArea,
    QAbstractSpinBox,
    QComboBox,
    QLabel,
    QLineEdit,
    QPushButton,
    QScrollArea,
    QSplitterHandle,
    QToolButton,
    QWidget,
)

from app.shell.widgets import ElidedButton

# A label's own size is whole px while its words are not.
SLACK = 1
PADDING = 10  # of a spin box on each side
# These lie over what they belong to on purpose, as the handle between two panes does.
FLOATING = ("float",)


def faults(window: QWidget) -> list[str]:
    """What is wrong with all that is visible in the window, one sentence each."""
    found = [fault for widget in _visible(window) for fault in _of(widget)]
    return [*found, *_overlaps(window)]


def _visible(window: QWidget) -> Iterator[QWidget]:
    for widget in window.findChildren(QWidget):
        if widget.isVisible() and widget.window() is window and not _inside_a_control(widget):
            yield widget


def _inside_a_control(widget: QWidget) -> bool:
    """Parts of Qt's own controls are placed by Qt."""
    parent = widget.parentWidget()
    while parent is not None:
        if isinstance(parent, QAbstractSpinBox | QComboBox | QLineEdit):
            return True
        parent = parent.parentWidget()
    return False


def _of(widget: QWidget) -> Iterator[str]:
    yield from _clipped_words(widget)
    yield from _outside(widget)
    yield from _overlaps(widget)
    if isinstance(widget, QScrollArea):
        yield from _too_wide(widget)


def _clipped_words(widget: QWidget) -> Iterator[str]:
    wanted = widget.sizeHint()
    if isinstance(widget, QLabel):
        if not widget.text():
            return
        if widget.wordWrap():
            tall = widget.heightForWidth(widget.width())
            if widget.height() + SLACK < tall:
                yield f"{tall - widget.height()} px of lines are cut off: {_name(widget)}"
            if widget.textFormat() is Qt.TextFormat.PlainText:
                yield from _broken_word(widget)
        elif widget.width() + SLACK < wanted.width() or widget.height() + SLACK < wanted.height():
            yield f"{_short_of(widget)}: {_name(widget)}"
    elif isinstance(widget, ElidedButton):
        if widget.width() < widget.minimumSizeHint().width():
            yield f"{_short_of(widget)}: {_name(widget)}"
    elif isinstance(widget, QToolButton) and not widget.text():
        if (
            widget.width() < widget.iconSize().width()
            or widget.height() < widget.iconSize().height()
        ):
            yield f"{_short_of(widget)}: {_name(widget)}"
    elif isinstance(widget, QAbstractSpinBox):
        words = widget.fontMetrics().horizontalAdvance(widget.text())
        if words > widget.width() - 2 * PADDING or widget.height() < widget.fontMetrics().height():
            yield f"{_short_of(widget)}: {_name(widget)}"
    elif isinstance(widget, QAbstractButton | QComboBox):
        if widget.width() + SLACK < wanted.width() or widget.height() + SLACK < wanted.height():
            yield f"{_short_of(widget)}: {_name(widget)}"
    elif isinstance(widget, QLineEdit) and not widget.text():
        words = widget.fontMetrics().horizontalAdvance(widget.placeholderText())
        room = widget.width() - (wanted.width() - widget.fontMetrics().horizontalAdvance("x" * 17))
        if widget.placeholderText() and words > room:
            yield f"the hint is cut off by {words - room} px: {_name(widget)}"


def _broken_word(widget: QLabel) -> Iterator[str]:
    """A word that is wider than its label is cut."""
    metrics = widget.fontMetrics()
    for word in re.split(r"[\s\u200b]+", widget.text()):
        if metrics.horizontalAdvance(word) > widget.contentsRect().width() + SLACK:
            yield f"“{word}” is wider than its place: {_name(widget)}"
            return


def _outside(widget: QWidget) -> Iterator[str]:
    parent = widget.parentWidget()
    if parent is None or _scrolls(parent) or widget.size().isEmpty():
        return
    if not parent.rect().adjusted(-SLACK, -SLACK, SLACK, SLACK).contains(widget.geometry()):
        place = widget.geometry().getRect()
        yield f"{_name(widget)} at {place} reaches out of {_name(parent)} {parent.size().toTuple()}"


def _scrolls(parent: QWidget) -> bool:
    area = parent.parentWidget()
    return isinstance(area, QAbstractScrollArea) and area.viewport() is parent


def _overlaps(parent: QWidget) -> Iterator[str]:
    """Two children of one parent that share more than an edge."""
    children = [
        child
        for child in parent.children()
        if isinstance(child, QWidget) and child.isVisible() and not child.isWindow()
        and child.property("kind") not in FLOATING and not isinstance(child, QSplitterHandle)
    ]  # fmt: skip
    for number, first in enumerate(children):
        for second in children[number + 1 :]:
            shared = first.geometry().intersected(second.geometry())
            if shared.width() > SLACK and shared.height() > SLACK:
                yield f"{_name(first)} and {_name(second)} share {shared.getRect()}"


def _too_wide(area: QScrollArea) -> Iterator[str]:
    content = area.widget()
    hidden = area.horizontalScrollBarPolicy() is Qt.ScrollBarPolicy.ScrollBarAlwaysOff
    if hidden and content.width() > area.viewport().width() + SLACK:
        more = content.width() - area.viewport().width()
        yield f"{more} px of the content are cut off at the right: {_name(area)}"


def _short_of(widget: QWidget) -> str:
    wanted = widget.sizeHint()
    return f"{widget.size().toTuple()} where {wanted.toTuple()} is needed"


def _name(widget: QWidget) -> str:
    words = ""
    if isinstance(widget, QLabel | QPushButton | QLineEdit):
        words = widget.text() or widget.accessibleName()
    words = words or widget.accessibleName()
    above = widget.parentWidget()
    inside = type(above).__name__ if above is not None else "nothing"
    return f"{type(widget).__name__} “{words[:60]}” in {inside}"
