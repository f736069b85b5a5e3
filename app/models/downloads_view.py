"""The downloads' layout: what is under way, and what is over."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

from app.i18n import tr
from app.models.job_row import JobRow
from app.shell.flow import Flow
from app.shell.widgets import button, column, label, row
from engine.api.models import JobInfo


class JobCard(QFrame):
    """Jobs under a heading; gone while there are none. Rows stay as long as their jobs do, so that
    the keyboard's focus does."""

    steered = Signal(str, str)

    def __init__(self, heading: str) -> None:
        super().__init__()
        self.setProperty("kind", "card")
        self.rows: dict[str, JobRow] = {}
        self.head = row(label(heading, "heading"), None)
        self._list = QVBoxLayout()
        self._list.setSpacing(0)
        layout = column(spacing=8)
        layout.setContentsMargins(16, 12, 16, 6)
        layout.addLayout(self.head)
        layout.addLayout(self._list)
        self.setLayout(layout)
        self.hide()

    def show_jobs(self, jobs: Sequence[JobInfo]) -> None:
        wanted = {job.id for job in jobs}
        for key in [key for key in self.rows if key not in wanted]:
            gone = self.rows.pop(key)
            self._list.removeWidget(gone)
            gone.hide()
            gone.deleteLater()
        for place, job in enumerate(jobs):
            shown = self.rows.get(job.id)
            if shown is None:
                shown = self.rows[job.id] = JobRow(job)
                shown.steered.connect(self.steered)
                self._list.insertWidget(place, shown)
            else:
                if self._list.indexOf(shown) != place:
                    self._list.insertWidget(place, shown)
                if shown.job != job:
                    shown.show_job(job)
            shown.rule.setVisible(place > 0)
        self.setVisible(bool(jobs))


class DownloadsView(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self.waiting = label("", "secondary", wrap=True)
        self.under_way = JobCard(tr("models.under_way"))
        self.over = JobCard(tr("models.over"))
        self.clear = button(tr("models.clear"), "link")
        self.over.head.addWidget(self.clear)
        self.empty = QWidget()
        self.discover = button(tr("models.discover"), "primary")
        empty = column(label(tr("models.downloads_empty"), "secondary", wrap=True), spacing=12)
        buttons = Flow(spacing=8)
        buttons.addWidget(self.discover)
        empty.addLayout(buttons)
        self.empty.setLayout(empty)
        layout = column(self.empty, self.under_way, self.over, None, spacing=16)
        self.setLayout(layout)
