"""The one list of the window's pages, in the order of the sidebar.

A page's module has `make_page(context) -> Page`; it is imported when the page is first shown. The
chat is part of the window itself: the sidebar belongs to it.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from app.shell.context import Context
from app.shell.page import Page


@dataclass(frozen=True)
class PageEntry:
    """`id` is also the key of its name, `pages.<id>`; `icon` one of app/theme/icons. One that comes
    by itself has no shortcut."""

    id: str
    icon: str
    shortcut: str
    module: str
    in_sidebar: bool = True

    def make(self, context: Context) -> Page:
        return importlib.import_module(self.module).make_page(context)


PAGES: tuple[PageEntry, ...] = (
    PageEntry("chat", "message-square", "Ctrl+1", "app.chat.chat_view", in_sidebar=False),
    PageEntry("models", "package", "Ctrl+2", "app.models.models_view"),
    PageEntry("prefill", "gauge", "Ctrl+3", "app.prefill.prefill_view"),
    PageEntry("settings", "settings", "Ctrl+,", "app.settings.settings_view"),
    PageEntry("diagnostics", "activity", "Ctrl+5", "app.diagnostics.diagnostics_view"),
    PageEntry("first_run", "play", "", "app.first_run.first_run_view", in_sidebar=False),
    PageEntry("shortcuts", "keyboard", "F1", "app.shell.shortcuts_page", in_sidebar=False),
)
