"""The page that lists every keyboard shortcut."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QFrame, QGridLayout, QVBoxLayout, QWidget

from app.i18n import tr
from app.shell.context import Context
from app.shell.page import Page
from app.shell.pages import PAGES
from app.shell.scrolled import scrolled
from app.shell.shortcuts import SHORTCUTS
from app.shell.widgets import column, label

WIDEST = 640


def make_page(context: Context) -> Page:
    del context
    return ShortcutsPage()


class ShortcutsPage(Page):
    def __init__(self) -> None:
        super().__init__()
        grid = QGridLayout()
        grid.setHorizontalSpacing(24)
        grid.setVerticalSpacing(8)
        grid.setColumnStretch(0, 1)
        entries = [(tr(f"shortcuts.{item.id}"), item.keys) for item in SHORTCUTS]
        entries += [
            (tr("shortcuts.page", page=tr(f"pages.{page.id}")), page.shortcut)
            for page in PAGES
            if page.shortcut
        ]
        for line, (words, keys) in enumerate(entries):
            shown = QKeySequence(keys).toString(QKeySequence.SequenceFormat.NativeText)
            grid.addWidget(label(words), line, 0)
            grid.addWidget(label(shown, "badge"), line, 1, Qt.AlignmentFlag.AlignRight)
        card = QFrame()
        card.setProperty("kind", "card")
        card.setLayout(grid)
        grid.setContentsMargins(16, 12, 16, 12)
        content = QWidget()
        content.setLayout(
            column(label(tr("pages.shortcuts"), "title"), card, None, spacing=16, margin=24)
        )
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(scrolled(content, WIDEST, tr("pages.shortcuts")))
