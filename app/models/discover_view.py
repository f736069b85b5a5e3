"""Discover's layout: the search, what fits this machine best, and what was found."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLineEdit, QVBoxLayout, QWidget

from app.i18n import tr
from app.models.listing_view import Listing
from app.models.row import Row, RowCard
from app.models.trouble import TokenLine, Trouble
from app.shell.widgets import button, clear_layout, clearable, column, label, row


class DiscoverView(QWidget):
    """`search_asked` with the words."""

    search_asked = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.query = QLineEdit()
        self.query.setPlaceholderText(tr("models.search_hint"))
        self.query.setAccessibleName(tr("models.search_hint"))
        clearable(self.query)
        self.query.setMaxLength(500)
        self.search = button(tr("models.search"), icon_name="search")
        self.query.returnPressed.connect(self._search)
        self.search.clicked.connect(self._search)
        self.status = label("", "secondary", wrap=True)
        self.trouble = Trouble()
        self.best = RowCard(tr("models.for_this_machine"))
        self.repos = RowCard(tr("models.found"))
        self._listing_place = QVBoxLayout()
        self._listing_place.setSpacing(12)
        self.hint = label(tr("models.discover_hint"), "secondary", wrap=True)
        self.token_link = button(tr("models.token_link"), "link")
        self.token = TokenLine()
        self.token.hide()
        self.token_link.clicked.connect(self._show_token)
        line = row(self.query, self.search)
        line.setStretch(0, 1)
        layout = column(spacing=16)
        layout.addLayout(line)
        for widget in (self.status, self.trouble, self.best, self.repos):
            layout.addWidget(widget)
        layout.addLayout(self._listing_place)
        layout.addWidget(self.hint)
        layout.addLayout(row(self.token_link, None))
        layout.addWidget(self.token)
        layout.addStretch(1)
        self.setLayout(layout)
        self.status.hide()

    def say(self, words: str) -> None:
        """What is going on; empty when nothing is."""
        self.status.setText(words)
        self.status.setVisible(bool(words))

    def clear(self) -> None:
        """Takes away what an earlier search found."""
        self.trouble.hide()
        self.repos.fill(())
        clear_layout(self._listing_place)
        self.hint.hide()

    def show_best(self, best: Row | None) -> None:
        self.best.fill([] if best is None else [lambda: best])

    def show_listing(self, name: str, listing: Listing) -> None:
        self._listing_place.addWidget(label(name, "heading", wrap=True))
        self._listing_place.addWidget(listing)

    def _search(self) -> None:
        self.search_asked.emit(self.query.text().strip())

    def _show_token(self) -> None:
        self.token.setVisible(self.token.isHidden())
        if not self.token.isHidden():
            self.token.field.setFocus()
