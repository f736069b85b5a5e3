"""The downloads' logic: shows the queue as it changes, and steers it."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from app.engine_client.failures import sentence
from app.models.downloads_view import DownloadsView
from app.models.listing_view import LIVE
from app.shell.context import Context
from engine.api.failure import Failure
from engine.api.models import JobAction, JobInfo

HIGHEST = 100
# The latest of what is over; the engine keeps more.
OVER_SHOWN = 30
_ACTIONS: dict[str, JobAction] = {
    "pause": "pause", "resume": "resume", "retry": "retry", "cancel": "cancel", "remove": "remove",
}  # fmt: skip


class DownloadsController(QObject):
    """`library_asked` and `discover_asked` when somebody wants to go there."""

    library_asked = Signal()
    discover_asked = Signal()

    def __init__(self, context: Context, view: DownloadsView) -> None:
        super().__init__(view)
        self._context = context
        self._models = context.models
        self._view = view
        for card in (view.under_way, view.over):
            card.steered.connect(self.steer)
        view.clear.clicked.connect(self._clear)
        view.discover.clicked.connect(self.discover_asked)
        self._models.jobs_changed.connect(self._show)
        self._show()

    def _show(self) -> None:
        jobs = self._models.jobs
        over = [job for job in jobs if job.state not in LIVE]
        over.sort(key=lambda job: -job.created)
        self._view.under_way.show_jobs([job for job in jobs if job.state in LIVE])
        self._view.over.show_jobs(over[:OVER_SHOWN])
        self._view.empty.setVisible(not jobs)

    def steer(self, what: str, job: str) -> None:
        if what == "show":
            self.library_asked.emit()
        elif what == "first":
            most = max((one.priority for one in self._models.jobs if one.state in LIVE), default=0)
            self._models.set_priority(job, min(HIGHEST, most + 1), _done, self._on_refused)
        else:
            self._models.act(job, _ACTIONS[what], _done, self._on_refused)

    def _clear(self) -> None:
        for job in self._models.jobs:
            if job.state not in LIVE:
                self._models.act(job.id, "remove", _done, _ignore)

    def _on_refused(self, problem: Failure) -> None:
        self._context.notify(sentence(problem))


def _done(_: JobInfo) -> None:
    """The queue tells of it."""


def _ignore(_: Failure) -> None:
    """It is gone already."""
