"""What a page is to the window."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget


class Page(QWidget):
    """A page fills the window beside the sidebar. `shown` is called each time it comes forward,
    `close_page` before the window goes."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("kind", "page")

    def shown(self) -> None:
        pass

    def close_page(self) -> None:
        pass
