"""The queue of work, kept on disk: what is to be done, in which order, and what became of it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from engine.api.failure import Failure
from engine.api.models import (
    ImportWay,
    JobAction,
    JobInfo,
    JobKind,
    JobState,
    Origin,
    Progress,
)
from engine.api.plan import Remark
from engine.downloads.errors import NoSuchJob, WrongState
from engine.library.database import Database

_KEPT_FINISHED = 100
_COLUMNS = "id, kind, title, state, priority, created, work, progress, failure, notices, result"
_FINISHED: tuple[JobState, ...] = ("done", "cancelled")
LIVE: tuple[JobState, ...] = ("queued", "running", "paused", "failed")


class _Work(BaseModel):
    model_config = ConfigDict(frozen=True)


class WantedFile(_Work):
    """One file of the hub's and where it goes, below the library's main folder."""

    path: str
    bytes: int
    sha256: str
    target: str


class Download(_Work):
    """`revision` is what was asked for (None: the main branch), `commit` what that was then.

    `mismatches` counts, for each hash, how often other bytes came; `restarts` how often the
    files were changed on the hub meanwhile; `retries` how often in a row it failed without a byte,
    and `retry_at` (seconds since 1970) is when it is tried again."""

    kind: Literal["download"] = "download"
    repo: str
    revision: str | None
    commit: str
    variants: tuple[str, ...]
    files: tuple[WantedFile, ...]
    origin: Origin
    mismatches: dict[str, int] = {}
    restarts: int = 0
    retries: int = 0
    retry_at: float | None = None


class Build(_Work):
    kind: Literal["build"] = "build"
    decoder: Path
    source: Path | None
    out: Path


class Verify(_Work):
    kind: Literal["verify"] = "verify"
    entry: str


class Import(_Work):
    kind: Literal["import"] = "import"
    path: Path
    way: ImportWay


class Export(_Work):
    kind: Literal["export"] = "export"
    entry: str
    folder: Path


class Move(_Work):
    kind: Literal["move"] = "move"
    folder: Path


AnyWork = Annotated[Download | Build | Verify | Import | Export | Move, Field(discriminator="kind")]
_WORK: TypeAdapter[AnyWork] = TypeAdapter(AnyWork)
_NOTICES: TypeAdapter[tuple[Remark, ...]] = TypeAdapter(tuple[Remark, ...])


@dataclass(frozen=True, slots=True)
class Job:
    id: str
    title: str
    state: JobState
    priority: int
    created: float
    work: AnyWork
    progress: Progress
    failure: Failure | None
    notices: tuple[Remark, ...]
    result: str | None

    @property
    def kind(self) -> JobKind:
        return self.work.kind

    def info(self) -> JobInfo:
        return JobInfo(
            id=self.id,
            kind=self.kind,
            title=self.title,
            state=self.state,
            priority=self.priority,
            created=self.created,
            progress=self.progress,
            failure=self.failure,
            notices=self.notices,
            result=self.result,
            retry_at=self.retry_at,
        )

    @property
    def retry_at(self) -> float | None:
        """When it is tried again by itself."""
        if self.state != "failed" or not isinstance(self.work, Download):
            return None
        return self.work.retry_at


class Queue:
    """May be changed from any process; only a runner (one at a time) sets jobs running."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # --- for everybody -----------------------------------------------------------------------

    def add(self, work: AnyWork, title: str, *, priority: int = 0, total: int = 0) -> Job:
        job_id = secrets.token_hex(4)
        values = (
            job_id,
            work.kind,
            title,
            "queued",
            priority,
            time.time(),
            work.model_dump_json(),
            Progress(total=total).model_dump_json(),
            None,
            "[]",
            None,
        )
        with self._database.transaction() as connection:
            connection.execute(
                f"INSERT INTO jobs ({_COLUMNS}) VALUES ({','.join('?' * len(values))})", values
            )
            connection.execute(
                "DELETE FROM jobs WHERE state IN ('done', 'cancelled') AND id NOT IN (SELECT id "
                "FROM jobs WHERE state IN ('done', 'cancelled') ORDER BY created DESC LIMIT ?)",
                (_KEPT_FINISHED,),
            )
        return self.get(job_id)

    def jobs(self) -> list[Job]:
        """In the order in which they run."""
        rows = self._database.rows(f"SELECT {_COLUMNS} FROM jobs ORDER BY priority DESC, created")
        return [_job(row) for row in rows]

    def get(self, job_id: str) -> Job:
        """Raises NoSuchJob."""
        rows = self._database.rows(f"SELECT {_COLUMNS} FROM jobs WHERE id = ?", (job_id,))
        if not rows:
            raise NoSuchJob(id=job_id)
        return _job(rows[0])

    def same(self, work: AnyWork) -> Job | None:
        """A live job that does the same already."""
        for job in self.jobs():
            if job.state in LIVE and _asked(job.work) == _asked(work):
                return job
        return None

    def act(self, job_id: str, action: JobAction) -> Job:
        """Raises NoSuchJob or WrongState. A runner notices within a moment."""
        allowed: dict[JobAction, tuple[JobState, ...]] = {
            "pause": ("queued", "running", "paused", "failed"),
            "resume": ("paused", "failed", "queued", "running"),
            "retry": ("failed", "paused", "cancelled"),
            "cancel": ("queued", "running", "paused", "failed"),
            "remove": ("done", "cancelled", "failed"),
        }
        job = self.get(job_id)
        if job.state not in allowed[action]:
            raise WrongState(state=job.state, action=action)
        if action == "remove":
            self._database.run("DELETE FROM jobs WHERE id = ?", (job_id,))
            return job
        becomes: dict[JobAction, JobState] = {
            "pause": "paused", "resume": "queued", "retry": "queued", "cancel": "cancelled"
        }  # fmt: skip
        if not (action == "resume" and job.state == "running"):
            self._set(job_id, state=becomes[action], only_if=job.state)
        if action in ("resume", "retry"):
            self._database.run("UPDATE jobs SET failure = NULL WHERE id = ?", (job_id,))
            if isinstance(job.work, Download):  # the user may have changed the network
                afresh: dict[str, object] = {"mismatches": {}, "retries": 0, "retry_at": None}
                self.change_work(job_id, job.work.model_copy(update=afresh))
        return self.get(job_id)

    def set_priority(self, job_id: str, priority: int) -> Job:
        self.get(job_id)
        self._database.run("UPDATE jobs SET priority = ? WHERE id = ?", (priority, job_id))
        return self.get(job_id)

    # --- for the runner ----------------------------------------------------------------------

    def recover(self) -> None:
        """What a runner that died was at is to be done again."""
        self._database.run("UPDATE jobs SET state = 'queued' WHERE state = 'running'")

    def claim(self, job_id: str) -> bool:
        """Whether it was still queued, and is running now."""
        return self._set(job_id, state="running", only_if="queued")

    def give_back(self, job_id: str) -> None:
        """Stopped for now, by the runner itself."""
        self._set(job_id, state="queued", only_if="running")

    def finish(self, job_id: str, result: str | None) -> None:
        with self._database.transaction() as connection:
            connection.execute(
                "UPDATE jobs SET state = 'done', result = ? WHERE id = ? AND state = 'running'",
                (result, job_id),
            )

    def fail(self, job_id: str, failure: Failure) -> None:
        with self._database.transaction() as connection:
            connection.execute(
                "UPDATE jobs SET state = 'failed', failure = ? WHERE id = ? AND state = 'running'",
                (failure.model_dump_json(), job_id),
            )

    def postpone(self, job_id: str, failure: Failure, work: Download) -> None:
        """Failed for now; `work` says when it is tried again."""
        with self._database.transaction() as connection:
            connection.execute(
                "UPDATE jobs SET state = 'failed', failure = ?, work = ? "
                "WHERE id = ? AND state = 'running'",
                (failure.model_dump_json(), work.model_dump_json(), job_id),
            )

    def try_again(self, job: Job) -> None:
        """Queued once more, unless the user has decided something else meanwhile."""
        assert isinstance(job.work, Download)
        work = job.work.model_copy(update={"retry_at": None})
        self._database.run(
            "UPDATE jobs SET state = 'queued', failure = NULL, work = ? "
            "WHERE id = ? AND state = 'failed'",
            (work.model_dump_json(), job.id),
        )

    def show(self, job_id: str, progress: Progress) -> None:
        self._database.run(
            "UPDATE jobs SET progress = ? WHERE id = ?", (progress.model_dump_json(), job_id)
        )

    def notice(self, job_id: str, remark: Remark) -> None:
        known = self.get(job_id).notices
        if remark not in known:
            notices = _NOTICES.dump_json((*known, remark)).decode()
            self._database.run("UPDATE jobs SET notices = ? WHERE id = ?", (notices, job_id))

    def change_work(self, job_id: str, work: AnyWork) -> None:
        self._database.run(
            "UPDATE jobs SET work = ? WHERE id = ?", (work.model_dump_json(), job_id)
        )

    def _set(self, job_id: str, *, state: JobState, only_if: JobState) -> bool:
        changed = self._database.run(
            "UPDATE jobs SET state = ? WHERE id = ? AND state = ?", (state, job_id, only_if)
        )
        return changed == 1


def wanted_hashes(jobs: Iterable[Job]) -> set[str]:
    """Hashes of all files that live downloads may still need."""
    return {
        file.sha256
        for job in jobs
        if job.state in LIVE and isinstance(job.work, Download)
        for file in job.work.files
    }


def _asked(work: AnyWork) -> dict[str, Any]:
    """What was asked for, without what has happened since."""
    if isinstance(work, Download):
        return {"repo": work.repo, "hashes": {file.sha256 for file in work.files}}
    return work.model_dump()


def _job(row: tuple[Any, ...]) -> Job:
    job_id, _, title, state, priority, created, work, progress, failure, notices, result = row
    return Job(
        id=job_id,
        title=title,
        state=state,
        priority=priority,
        created=created,
        work=_WORK.validate_json(work),
        progress=Progress.model_validate_json(progress),
        failure=Failure.model_validate_json(failure) if failure else None,
        notices=_NOTICES.validate_json(notices),
        result=result,
    )
