"""The first page's logic: looks at the machine and at the hub, then downloads or opens the demo."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter
from PySide6.QtCore import Qt

from app.engine_client.client import Connection
from app.engine_client.failures import sentence
from app.engine_client.http import Stream
from app.first_run.words import machine_line, needs_measuring
from app.i18n import numbers, tr
from app.models.words import best_name, best_words, job_facts, job_share
from app.shell.announce import announce
from app.shell.context import Context
from app.shell.page import PageController
from app.theme.icons import icon
from engine.api.failure import Failure
from engine.api.hardware import Profile
from engine.api.models import JobInfo, JobList, LibraryAnswer, Recommendation, Recommended
from engine.api.survey import Probed, ProbeEvent, ProbeStep

if TYPE_CHECKING:
    from app.first_run.first_run_view import FirstRunView

_probe_event: TypeAdapter[ProbeStep | Probed] = TypeAdapter(ProbeEvent)
_LIVE = ("queued", "running", "paused")


class FirstRunController(PageController):
    def __init__(self, context: Context, view: FirstRunView) -> None:
        super().__init__(view)
        self._context = context
        self._models = context.models
        self._engine = context.engine
        self._view = view
        self._best: Recommendation | None = None
        self._asked = False
        self._measuring: Stream | None = None
        self._ours: set[str] = set()  # the jobs that bring the recommended pair
        view.download.clicked.connect(self._download)
        view.demo.clicked.connect(self._demo)
        view.retry.clicked.connect(self._again)
        view.pause.clicked.connect(self._pause_or_resume)
        view.other.clicked.connect(lambda: context.show_page("models"))
        self._models.jobs_changed.connect(self._on_jobs)
        self._engine.connection_changed.connect(self._on_connection)

    def close(self) -> None:
        self._engine.connection_changed.disconnect(self._on_connection)
        self._stop_measuring()

    def refresh(self) -> None:
        """Called each time the page comes forward."""
        view = self._view
        view.demo.setVisible(self._demo_file() is not None)
        view.demo.setFocus(Qt.FocusReason.OtherFocusReason)
        connection = self._engine.connection
        if connection is not Connection.CONNECTED:
            self._asked = False
            starting = connection is Connection.STARTING
            view.machine.setText(tr("chat.engine_starting" if starting else "chat.engine_stopped"))
            view.show_best("", "")
            view.show_download("")
        elif not self._asked:
            self._asked = True
            view.machine.setText(tr("first_run.looking"))
            self._engine.http.get("/twofold/probe", self._on_probed, self._on_unprobed)
            self._recommend()

    def _on_connection(self, _: Connection) -> None:
        if self._view.isVisible():
            self.refresh()

    def _again(self) -> None:
        self._view.retry.hide()
        self._recommend()

    # What was found

    def _on_probed(self, answer: Any) -> None:
        profile = Probed.model_validate(answer).profile
        self._show_machine(profile)
        if needs_measuring(profile):
            self._measure()

    def _measure(self) -> None:
        """What is not known of this machine yet; it takes some seconds, and nobody waits."""
        if self._measuring is not None:
            return
        self._measuring = self._engine.http.stream("/twofold/probe", {"again": False})
        self._measuring.arrived.connect(self._on_measured)
        self._measuring.ended.connect(self._on_measuring_ended)

    def _on_measured(self, data: Any) -> None:
        if "error" in data:
            return  # the line without a rate stays
        event = _probe_event.validate_python(data)
        if isinstance(event, Probed):
            self._show_machine(event.profile)

    def _stop_measuring(self) -> None:
        if self._measuring is not None:
            self._measuring.abort()
            self._measuring = None

    def _on_measuring_ended(self, _: Failure | None) -> None:
        self._measuring = None

    def _on_unprobed(self, problem: Failure) -> None:
        self._view.machine.setText(sentence(problem))

    def _show_machine(self, profile: Profile) -> None:
        self._view.machine.setText(machine_line(profile))

    # What fits best

    def _recommend(self) -> None:
        self._view.put_demo_first(False)
        self._view.show_best(tr("models.recommending"), "")
        self._models.recommended(self._on_recommended, self._on_unreachable)

    def _on_recommended(self, answer: Recommended) -> None:
        best = self._best = answer.best
        if best is None:
            self._only_demo(tr("first_run.nothing_fits"), tr("first_run.demo_words"))
            return
        self._view.show_best(best_name(best), best_words(best))
        self._on_jobs()
        if not self._ours:
            self._view.show_download(_download_words(best))
            if not self._view.other.hasFocus():
                self._view.download.setFocus(Qt.FocusReason.OtherFocusReason)
            announce(self._view, f"{self._view.best.text()} {self._view.why.text()}")

    def _on_unreachable(self, problem: Failure) -> None:
        self._view.retry.show()
        self._only_demo(sentence(problem), tr("first_run.demo_words"))

    def _only_demo(self, words: str, more: str) -> None:
        """Nothing can be downloaded: the demo is what there is."""
        self._view.put_demo_first(True)
        self._view.show_download("")
        self._view.show_best("", f"{words} {more}" if self._demo_file() is not None else words)
        announce(self._view, self._view.why.text())

    # The two ways to begin

    def _download(self) -> None:
        best = self._best
        if best is not None:
            self._view.download.setEnabled(False)
            paired = best.prefiller is not None
            self._models.pull(best.pull, self._on_queued, self._on_refused, prefiller=paired)

    def _on_queued(self, queued: JobList) -> None:
        self._ours = {job.id for job in queued.jobs}
        self._on_jobs()

    def _on_refused(self, problem: Failure) -> None:
        self._view.download.setEnabled(True)
        self._context.notify(sentence(problem))

    def _demo(self) -> None:
        if self._demo_file() is not None:
            self._stop_measuring()  # the model is to have the machine to itself
            self._context.loader.load_demo()
            self._context.show_page("chat")

    def _demo_file(self) -> Path | None:
        return self._context.loader.demo()

    # While it comes

    def _on_jobs(self) -> None:
        if self._best is None:
            return
        jobs = [job for job in self._models.jobs if self._is_ours(job)]
        if not jobs:
            return
        self._ours |= {job.id for job in jobs}
        first = next((job for job in jobs if job.state != "done"), None)
        if first is None:
            self._arrived(jobs)
        elif first.state == "cancelled":
            self._ours.clear()
            self._view.show_progress(None, "")
            self._view.show_download(_download_words(self._best))
        else:
            self._show_job(first)

    def _show_job(self, job: JobInfo) -> None:
        view = self._view
        view.show_download("")
        words = job_facts(job)
        if job.state == "failed" and job.failure is not None:
            words = sentence(job.failure)
        view.show_progress(job_share(job), words)
        runs = job.state in ("queued", "running")
        name = tr("models.steer_pause" if runs else "models.steer_resume")
        view.pause.setIcon(icon("pause" if runs else "play"))
        view.pause.setAccessibleName(name)
        view.pause.setToolTip(name)

    def _is_ours(self, job: JobInfo) -> bool:
        """Also one that an earlier start of the window began."""
        return job.id in self._ours or (job.title in self._titles() and job.state in _LIVE)

    def _titles(self) -> set[str]:
        """What the queue calls the recommended pair."""
        best = self._best
        if best is None:
            return set()
        offer = best.prefiller
        return {best.pull, *([f"{offer.repo}:{offer.variant}"] if offer is not None else [])}

    def _pause_or_resume(self) -> None:
        for job in self._models.jobs:
            if self._is_ours(job) and job.state != "done":
                action = "pause" if job.state in ("queued", "running") else "resume"
                self._models.act(job.id, action, lambda _: None, self._on_refused)

    def _arrived(self, jobs: list[JobInfo]) -> None:
        """All is there: it is loaded at once, unless something else was chosen meanwhile."""
        self._view.show_progress(1.0, tr("models.done_download"))
        self._ours.clear()
        paths = {Path(job.result) for job in jobs if job.result is not None}

        def load(answer: LibraryAnswer) -> None:
            entry = next((one for one in answer.entries if one.path in paths), None)
            if entry is None or entry.kind != "decoder" or self._context.loader.chosen is not None:
                return
            prefiller = entry.prefiller.path if entry.prefiller is not None else None
            self._context.loader.load(entry.path, prefiller)
            self._context.show_page("chat")

        self._models.library(load, self._on_refused)


def _download_words(best: Recommendation) -> str:
    if best.variant.installed:
        return tr("first_run.use")
    return tr("first_run.download", size=numbers.size(best.bytes))
