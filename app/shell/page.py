"""What a page is to the window, and to what fills it."""

from __future__ import annotations

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget


class PageController(QObject):
    """`refresh` fills the page each time it comes forward, `close` ends what still runs for it."""

    def refresh(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class Page(QWidget):
    """A page fills the window beside the sidebar. `shown` is called each time it comes forward,
    `close_page` before the window goes; both go to its controller, if it has one."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("kind", "page")
        self.controller: PageController | None = None

    def shown(self) -> None:
        if self.controller is not None:
            self.controller.refresh()

    def close_page(self) -> None:
        if self.controller is not None:
            self.controller.close()
