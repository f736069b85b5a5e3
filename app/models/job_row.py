"""One job of the queue as a row: what it does, how far it is, and how to steer it."""

from __future__ import annotations

from functools import partial
from typing import Literal

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QProgressBar, QToolButton, QWidget

from app.engine_client.failures import sentence
from app.i18n import tr
from app.models.words import (
    BarState,
    bar_state,
    breakable,
    job_facts,
    job_share,
    job_title,
    notice_words,
)
from app.shell.widgets import button, column, icon_button, label, restyle, row, rule
from app.theme.theme import theme
from engine.api.models import JobInfo, JobState

Steer = Literal["first", "pause", "resume", "retry", "cancel", "remove", "show"]
WIDE = 420
# What can be done to a job, in this order.
_STEERS: dict[JobState, tuple[Steer, ...]] = {
    "queued": ("first", "pause", "cancel"),
    "running": ("first", "pause", "cancel"),
    "paused": ("resume", "cancel"),
    "failed": ("cancel",),
    "done": ("remove",),
    "cancelled": ("remove",),
}
_ICONS: dict[Steer, str] = {
    "first": "arrow-up",
    "pause": "pause",
    "resume": "play",
    "cancel": "x",
    "remove": "x",
}


class JobRow(QWidget):
    """`steered` with what to do and the job's id."""

    steered = Signal(str, str)

    def __init__(self, job: JobInfo) -> None:
        super().__init__()
        self.job = job
        self._bar_state: BarState | None = None
        self.rule = rule()
        self.name = label("", "heading", wrap=True)
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.facts = label("", "small", wrap=True)
        self.notices = label("", "warn", wrap=True)
        self.problem = label("", "error", wrap=True)
        self.button = button("")
        self.button.clicked.connect(self._press)
        self.icons: dict[Steer, QToolButton] = {}
        self._head = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._head.setSpacing(8)
        self._head.addWidget(self.name, 1)
        self._actions = row(self.button, spacing=8)
        for steer, icon_name in _ICONS.items():
            made = icon_button(icon_name, tr(f"models.steer_{steer}"), size=16)
            made.clicked.connect(partial(self._steer, steer))
            self.icons[steer] = made
            self._actions.addWidget(made)
        self._head.addLayout(self._actions)
        layout = column(self.rule, spacing=6)
        layout.setContentsMargins(0, 0, 0, 10)
        layout.addSpacing(4)
        layout.addLayout(self._head)
        for widget in (self.bar, self.facts, self.notices, self.problem):
            layout.addWidget(widget)
        self.setLayout(layout)
        self.show_job(job)

    def show_job(self, job: JobInfo) -> None:
        self.job = job
        title = job_title(job)
        self.name.setText(breakable(title))
        self.bar.setAccessibleName(title)
        facts = job_facts(job)
        self.facts.setText(facts)
        self.facts.setVisible(bool(facts))
        self.notices.setText("\n".join(breakable(notice_words(one)) for one in job.notices))
        self.notices.setVisible(bool(job.notices))
        problem = sentence(job.failure) if job.failure and job.state == "failed" else ""
        self.problem.setText(breakable(problem))
        self.problem.setVisible(bool(problem))
        self._show_bar(job)
        for steer, made in self.icons.items():
            made.setVisible(steer in _STEERS[job.state])
            made.setAccessibleName(f"{tr(f'models.steer_{steer}')}: {title}")
        words = {"failed": tr("helps.try_again"), "done": tr("models.show_entry")}
        shown = words.get(job.state, "") if job.kind != "move" or job.state == "failed" else ""
        self.button.setText(shown)
        self.button.setAccessibleName(f"{shown}: {title}" if shown else "")
        self.button.setVisible(bool(shown))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """What can be done stands beside the name, or below it where it is narrow."""
        super().resizeEvent(event)
        wide = self.width() >= theme().px(WIDE)
        ways, sides = QBoxLayout.Direction, Qt.AlignmentFlag
        self._head.setDirection(ways.LeftToRight if wide else ways.TopToBottom)
        self._head.setAlignment(self._actions, sides(0) if wide else sides.AlignLeft)

    def _show_bar(self, job: JobInfo) -> None:
        share = job_share(job)
        unknown = share is None and job.state == "running"
        self.bar.setRange(0, 0 if unknown else 1000)
        self.bar.setValue(round((share or 0.0) * 1000))
        state = bar_state(job)
        if state != self._bar_state:
            self._bar_state = state
            self.bar.setProperty("kind", state)
            restyle(self.bar)

    def _press(self) -> None:
        self._steer("retry" if self.job.state == "failed" else "show")

    def _steer(self, steer: Steer, _: bool = False) -> None:
        self.steered.emit(steer, self.job.id)
