"""Where Tab goes: down the lines of what is seen, and from left to right in each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

from PySide6.QtCore import QRect, Qt
from PySide6.QtWidgets import QWidget

SHARED = 0.25  # of the lower one's height: those that share more stand in one line


def step(window: QWidget, *, forward: bool) -> bool:
    """Moves the focus on, or back. Rows come, go and are arranged anew all the time, so the order
    is what there is now. False where the focus is at nothing that can be seen."""
    current = cast("QWidget | None", window.focusWidget())
    stops = list(_stops(window, current))
    if current not in stops or len(stops) < 2:
        return False
    place = stops.index(current) + (1 if forward else -1)
    reasons = Qt.FocusReason
    reason = reasons.TabFocusReason if forward else reasons.BacktabFocusReason
    stops[place % len(stops)].setFocus(reason)
    return True


def _stops(parent: QWidget, current: QWidget | None) -> Iterator[QWidget]:
    """What takes the focus by Tab, and what has it; what holds others comes before them."""
    # Not `children()`: Python's hold on a layout that it gives ends the layout's own overrides.
    inside = parent.findChildren(QWidget, options=Qt.FindChildOption.FindDirectChildrenOnly)
    for child in _in_lines(one for one in inside if one.isVisible() and not one.isWindow()):
        if child is current or _takes_focus(child):
            yield child
        yield from _stops(child, current)


def _takes_focus(widget: QWidget) -> bool:
    by_tab = widget.focusPolicy() & Qt.FocusPolicy.TabFocus
    return bool(by_tab) and widget.isEnabled() and widget.focusProxy() is None


def _in_lines(widgets: Iterable[QWidget]) -> Iterator[QWidget]:
    left = sorted(widgets, key=lambda widget: widget.y())
    while left:
        place = left[0].geometry()
        line = [left[0], *(each for each in left[1:] if _share(place, each.geometry()))]
        yield from sorted(line, key=lambda widget: widget.x())
        left = [widget for widget in left if widget not in line]


def _share(first: QRect, second: QRect) -> bool:
    both = min(first.bottom(), second.bottom()) - max(first.top(), second.top())
    return both > SHARED * min(first.height(), second.height())
