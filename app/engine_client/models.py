"""Models for the rest of the window: the library, the hub, and the queue of work as it changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel
from PySide6.QtCore import QObject, QTimer, Signal

from app.engine_client.client import Connection, EngineClient
from app.engine_client.failures import ENGINE_ANSWER, failure
from app.engine_client.http import Failed, Stream
from app.shell.background import Background
from engine.api.failure import Failure
from engine.api.models import (
    ImportWay,
    JobAction,
    JobInfo,
    JobList,
    LibraryAnswer,
    Offers,
    Recommended,
    Removal,
    SearchAnswer,
    TokenAnswer,
)

Answer = TypeVar("Answer", bound=BaseModel)
# The jobs' stream is opened again this long after it broke.
RECONNECT_MS = 500


class Models(QObject):
    """`jobs_changed` whenever a job did; `job_ended` (JobInfo) once for each that was done, or
    failed, while the window looked. Answers are read in the background: some are long."""

    jobs_changed = Signal()
    job_ended = Signal(object)

    def __init__(
        self, engine: EngineClient, background: Background, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._engine = engine
        self._background = background
        self._stream: Stream | None = None
        self._jobs: tuple[JobInfo, ...] | None = None
        self._reconnect = QTimer(self)
        self._reconnect.setSingleShot(True)
        self._reconnect.setInterval(RECONNECT_MS)
        self._reconnect.timeout.connect(self._listen)
        engine.connection_changed.connect(self._on_connection)

    @property
    def jobs(self) -> tuple[JobInfo, ...]:
        """All jobs, in the order in which they run."""
        return self._jobs or ()

    def close(self) -> None:
        self._engine.connection_changed.disconnect(self._on_connection)
        self._drop()

    # What is here, and what the hub has

    def library(self, then: Callable[[LibraryAnswer], None], failed: Failed) -> None:
        self._ask("", None, LibraryAnswer, then, failed)

    def search(self, query: str, then: Callable[[SearchAnswer], None], failed: Failed) -> None:
        self._ask("/search", {"query": query}, SearchAnswer, then, failed)

    def recommended(self, then: Callable[[Recommended], None], failed: Failed) -> None:
        self._ask("/recommended", None, Recommended, then, failed)

    def offers(self, entry: str, then: Callable[[Offers], None], failed: Failed) -> None:
        self._ask("/offers", {"id": entry}, Offers, then, failed)

    # Work for the queue

    def pull(
        self, model: str, then: Callable[[JobList], None], failed: Failed, *, prefiller: bool
    ) -> None:
        self._ask("/pull", {"model": model, "prefiller": prefiller}, JobList, then, failed)

    def verify(self, entry: str, then: Callable[[JobInfo], None], failed: Failed) -> None:
        self._ask("/verify", {"id": entry}, JobInfo, then, failed)

    def build(
        self, entry: str, source: str | None, then: Callable[[JobInfo], None], failed: Failed
    ) -> None:
        body = {"id": entry} if source is None else {"id": entry, "source": source}
        self._ask("/build", body, JobInfo, then, failed)

    def bring_in(
        self, path: str, way: ImportWay, then: Callable[[JobInfo], None], failed: Failed
    ) -> None:
        self._ask("/import", {"path": path, "way": way}, JobInfo, then, failed)

    def export(
        self, entry: str, folder: str, then: Callable[[JobInfo], None], failed: Failed
    ) -> None:
        self._ask("/export", {"id": entry, "folder": folder}, JobInfo, then, failed)

    def move(self, folder: str, then: Callable[[JobInfo], None], failed: Failed) -> None:
        self._ask("/move", {"folder": folder}, JobInfo, then, failed)

    def act(
        self, job: str, action: JobAction, then: Callable[[JobInfo], None], failed: Failed
    ) -> None:
        self._ask("/jobs", {"id": job, "action": action}, JobInfo, then, failed)

    def set_priority(
        self, job: str, priority: int, then: Callable[[JobInfo], None], failed: Failed
    ) -> None:
        self._ask("/jobs", {"id": job, "priority": priority}, JobInfo, then, failed)

    # At once

    def removal(self, entry: str, then: Callable[[Removal], None], failed: Failed) -> None:
        """What removing it would take away."""
        self._ask("/remove", {"id": entry}, Removal, then, failed)

    def remove(self, entry: str, then: Callable[[Removal], None], failed: Failed) -> None:
        self._ask("/remove", {"id": entry, "confirm": True}, Removal, then, failed)

    def keep_token(self, token: str, then: Callable[[TokenAnswer], None], failed: Failed) -> None:
        self._engine.http.put(
            "/twofold/models/token",
            {"token": token},
            lambda answer: then(TokenAnswer.model_validate(answer)),
            failed,
        )

    def show_jobs(self, jobs: tuple[JobInfo, ...]) -> None:
        """Takes these for all jobs, and tells what changed."""
        before = {job.id: job.state for job in self.jobs}
        first = self._jobs is None
        self._jobs = jobs
        self.jobs_changed.emit()
        for job in jobs:
            if not first and job.state in ("done", "failed") and before.get(job.id) != job.state:
                self.job_ended.emit(job)

    def _ask(
        self,
        route: str,
        body: Any,
        kind: type[Answer],
        then: Callable[[Answer], None],
        failed: Failed,
    ) -> None:
        def read(content: bytes) -> None:
            self._background.run(lambda: kind.model_validate_json(content), then, strange)

        def strange(_: Exception) -> None:
            failed(failure(ENGINE_ANSWER, reason=kind.__name__))

        self._engine.http.fetch(f"/twofold/models{route}", body, read, failed)

    # The jobs' stream

    def _on_connection(self, connection: Connection) -> None:
        self._drop()
        if connection is Connection.CONNECTED:
            self._listen()

    def _listen(self) -> None:
        self._stream = self._engine.http.stream("/twofold/models/events")
        self._stream.arrived.connect(self._on_event)
        self._stream.ended.connect(self._on_ended)

    def _on_event(self, data: Any) -> None:
        self.show_jobs(JobList.model_validate(data).jobs)

    def _on_ended(self, _: Failure | None) -> None:
        self._stream = None
        if self._engine.connection is Connection.CONNECTED:
            self._reconnect.start()

    def _drop(self) -> None:
        self._reconnect.stop()
        if self._stream is not None:
            self._stream.abort()
            self._stream = None
