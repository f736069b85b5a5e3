"""The models page's logic: which part is shown, and what leads from one to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.engine_client.client import Connection
from app.i18n import tr
from app.models.discover_controller import DiscoverController
from app.models.downloads_controller import DownloadsController
from app.models.library_controller import LibraryController
from app.shell.context import Context
from app.shell.page import PageController

if TYPE_CHECKING:
    from app.models.models_view import ModelsView

_UNDER_WAY = ("queued", "running", "paused")


class ModelsController(PageController):
    def __init__(self, context: Context, view: ModelsView) -> None:
        super().__init__(view)
        self._context = context
        self._view = view
        self.discover = DiscoverController(context, view.discover)
        self.library = LibraryController(context, view.library)
        self.downloads = DownloadsController(context, view.downloads)
        view.switch.chosen.connect(self.show_tab)
        for part in (self.discover, self.library):
            part.downloads_asked.connect(lambda: self.show_tab("downloads"))
        self.downloads.library_asked.connect(lambda: self.show_tab("library"))
        for part in (self.library, self.downloads):
            part.discover_asked.connect(lambda: self.show_tab("discover"))
        context.models.jobs_changed.connect(self._show_count)
        context.engine.connection_changed.connect(self._on_connection)
        self._show_count()
        view.show_tab("discover")

    def close(self) -> None:
        self._context.engine.connection_changed.disconnect(self._on_connection)
        self.library.close()

    def refresh(self) -> None:
        """Called each time the page comes forward."""
        words = {
            Connection.CONNECTED: "",
            Connection.STARTING: tr("chat.engine_starting"),
        }.get(self._context.engine.connection, tr("chat.engine_stopped"))
        self._view.waiting.setText(words)
        self._view.waiting.setVisible(bool(words))
        self.show_tab(self._view.tab)

    def show_tab(self, name: str) -> None:
        self._view.show_tab(name)
        if name == "discover":
            self.discover.refresh()
        elif name == "library":
            self.library.refresh()

    def _on_connection(self, _: Connection) -> None:
        if self._view.isVisible():
            self.refresh()

    def _show_count(self) -> None:
        jobs = [job for job in self._context.models.jobs if job.state in _UNDER_WAY]
        words = tr("models.downloads")
        if jobs:
            words = tr("models.downloads_count", count=len(jobs))
        self._view.switch.rename("downloads", words)
