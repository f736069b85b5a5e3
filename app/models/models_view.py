"""The models page's layout: a switch between Discover, Library and Downloads, one of them below."""

from __future__ import annotations

from PySide6.QtWidgets import QScrollArea, QStackedWidget, QVBoxLayout, QWidget

from app.i18n import tr
from app.models.discover_view import DiscoverView
from app.models.downloads_view import DownloadsView
from app.models.library_view import LibraryView
from app.models.models_controller import ModelsController
from app.shell.context import Context
from app.shell.page import Page
from app.shell.scrolled import scrolled
from app.shell.segments import Segments
from app.shell.widgets import column, label, row
from app.theme.tokens import SCROLL_BAR

WIDEST = 960
TABS = ("discover", "library", "downloads")


def make_page(context: Context) -> Page:
    view = ModelsView()
    view.controller = ModelsController(context, view)
    return view


class ModelsView(Page):
    def __init__(self) -> None:
        super().__init__()
        names = {name: tr(f"models.{name}") for name in TABS}
        self.switch = Segments(tr("pages.models"), names)
        self.waiting = label("", "secondary", wrap=True)
        self.waiting.hide()
        self.discover = DiscoverView()
        self.library = LibraryView()
        self.downloads = DownloadsView()
        self._stack = QStackedWidget()
        self._areas: dict[str, QScrollArea] = {}
        parts: dict[str, QWidget] = {
            "discover": self.discover, "library": self.library, "downloads": self.downloads,
        }  # fmt: skip
        for name, part in parts.items():
            holder = QWidget()
            inside = column(part)
            inside.setContentsMargins(24, 4, 24, 24)
            holder.setLayout(inside)
            area = scrolled(holder, WIDEST, names[name])
            self._areas[name] = area
            self._stack.addWidget(self._areas[name])
        head = QWidget()
        head.setMaximumWidth(WIDEST)
        top = column(label(tr("pages.models"), "title"), self.switch, self.waiting, spacing=12)
        top.setContentsMargins(24, 24, 24, 8)
        head.setLayout(top)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.setSpacing(0)
        middle = row(None, head, None, spacing=0)
        middle.setStretch(1, 1000)
        middle.setContentsMargins(0, 0, SCROLL_BAR, 0)
        outer.addLayout(middle)
        outer.addWidget(self._stack, 1)

    @property
    def tab(self) -> str:
        current = self._stack.currentWidget()
        return next(name for name, area in self._areas.items() if area is current)

    def show_tab(self, name: str) -> None:
        self._stack.setCurrentWidget(self._areas[name])
        self.switch.show_chosen(name)
