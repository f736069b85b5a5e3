"""A new stylesheet for every widget, put in force bit by bit.

Qt's own way polishes all widgets in one go, the deeper ones several times over: a second for two
thousand. Here Qt takes them for unpolished while the sheets change, and they follow in steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from PySide6.QtCore import QCoreApplication, QEvent, QObject, Qt
from PySide6.QtWidgets import QApplication, QWidget
from shiboken6 import isValid

from app.shell.steps import Steps

_POLISHED = Qt.WidgetAttribute.WA_WState_Polished
_OWN_STYLE = Qt.WidgetAttribute.WA_SetStyle  # Qt then sends no change of style


class Restyling(QObject):
    """What is on the screen changes first, and all of it at once."""

    def __init__(self, application: QApplication) -> None:
        super().__init__(application)
        self._application = application
        self._waiting: dict[int, QWidget] = {}
        self._frozen: list[QWidget] = []
        self._steps: Steps | None = None

    def begin(self, sheet: str, seen: Callable[[], None]) -> None:
        """`seen` is called when all that is on the screen has the new look."""
        if self._steps is not None:
            self._steps.stop()
            self._steps.deleteLater()
        widgets = {id(widget): widget for widget in self._polished()}
        widgets |= {key: widget for key, widget in self._waiting.items() if isValid(widget)}
        self._waiting = widgets
        for widget in widgets.values():
            widget.setAttribute(_POLISHED, False)
            widget.setAttribute(_OWN_STYLE, True)
        self._application.setStyleSheet("")
        self._application.setStyleSheet(sheet)
        for widget in widgets.values():
            widget.setAttribute(_OWN_STYLE, False)
        on_screen = [widget for widget in widgets.values() if _on_screen(widget)]
        if not on_screen:
            seen()
        else:
            self._freeze()
        self._steps = Steps(self._polish(on_screen, seen), self._done, self)

    def _polished(self) -> Iterator[QWidget]:
        """Parents come before their children, who inherit fonts."""
        for top in self._application.topLevelWidgets():
            for widget in (top, *top.findChildren(QWidget)):
                if widget.testAttribute(_POLISHED):
                    yield widget

    def _polish(self, on_screen: list[QWidget], seen: Callable[[], None]) -> Iterator[None]:
        for widget in on_screen:
            if self._waiting.pop(id(widget), None) is not None and isValid(widget):
                _polish(widget)
            yield
        if on_screen:
            seen()
            yield
            self._thaw()
            yield
        for key in list(self._waiting):
            widget = self._waiting.pop(key)
            if isValid(widget):
                _polish(widget)
            yield

    def _freeze(self) -> None:
        """Nobody sees a window half in the old look."""
        for window in self._application.topLevelWidgets():
            if window.isVisible() and window.updatesEnabled():
                window.setUpdatesEnabled(False)
                self._frozen.append(window)

    def _thaw(self) -> None:
        for window in self._frozen:
            if isValid(window):
                window.setUpdatesEnabled(True)
        self._frozen = []

    def settle(self) -> None:
        """Does what is left at once."""
        if self._steps is not None:
            self._steps.finish()

    def _done(self) -> None:
        assert self._steps is not None
        self._steps.deleteLater()
        self._steps = None


def _on_screen(widget: QWidget) -> bool:
    return widget.isVisible() and not widget.visibleRegion().isEmpty()


def _polish(widget: QWidget) -> None:
    for kind in (QEvent.Type.Polish, QEvent.Type.StyleChange):
        QCoreApplication.sendEvent(widget, QEvent(kind))
