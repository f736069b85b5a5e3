"""Works the queue: downloads several at once, everything else one by one, in a thread of its own.

One runner works at a time, in whichever process came first; others see the same queue on disk
and may change it. A runner that dies is followed by the next, which takes up what it was at.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

from filelock import FileLock, Timeout

from engine.downloads import local_work, network
from engine.downloads.errors import (
    CannotWrite,
    GaveUp,
    HubFailed,
    HubOffline,
    HubUnreachable,
    RateLimited,
)
from engine.downloads.fetching import Meter, Renew, Shared, download
from engine.downloads.hub import Hub
from engine.downloads.jobs import Download, Job, Move, Queue, wanted_hashes
from engine.downloads.staging import Staging
from engine.downloads.throttle import Throttle
from engine.downloads.transfer import Limits, Transfer
from engine.errors import TwofoldError
from engine.library.database import Database
from engine.library.errors import WriteFailed
from engine.library.groups import failure_of
from engine.library.library import Library
from engine.settings import MB, DownloadSettings

log = logging.getLogger(__name__)

# How often the queue is looked at, since another process may have changed it: while something
# runs, and while nothing does.
_LOOK_S = 0.4
_IDLE_S = 1.5
_SHOW_S = 0.5
_LOCK_S = 1.0

# What passes without anybody's doing; the network comes back, the hub recovers.
_PASSING = (GaveUp, HubFailed, HubOffline, HubUnreachable, RateLimited)


class Unexpected(TwofoldError):
    """A fault of the program's own; `kind` is the exception's."""

    code = "jobs.unexpected"


class Runner:
    """`settings` is asked anew each time. `remember_folder` makes a folder the main one, when the
    library has been moved there."""

    def __init__(
        self,
        library: Library,
        queue: Queue,
        hub: Hub,
        *,
        settings: Callable[[], DownloadSettings],
        renew: Renew,
        remember_folder: Callable[[Path], None],
        limits: Limits | None = None,
        free: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free,
    ) -> None:
        self._library = library
        self._queue = queue
        self._hub = hub
        self._settings = settings
        self._renew = renew
        self._remember_folder = remember_folder
        self._limits = limits or Limits()
        self._free = free
        self._lock = runner_lock(library.database)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._meters: dict[str, Meter] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()

    # --- in a thread of its own --------------------------------------------------------------

    def start(self) -> None:
        self._thread = threading.Thread(target=self.run, name="downloads", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops what is running, which goes on at the next start; returns when it has stopped."""
        self._ending.set()
        self.wake()
        if self._thread is not None:
            self._thread.join()

    @property
    def busy(self) -> bool:
        """Whether a job runs in this process."""
        return bool(self._tasks)

    def tidy(self) -> None:
        """What runs in no process any more is shown as waiting."""
        with contextlib.suppress(CannotWrite):
            if not self._lock.is_locked and self._locked():
                self._queue.recover()
                self._lock.release()

    def wake(self) -> None:
        """The queue changed; for any thread."""
        loop, changed = self._loop, self._changed
        if loop is not None and changed is not None:
            with contextlib.suppress(RuntimeError):  # it has just ended
                loop.call_soon_threadsafe(changed.set)

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Works until `close`, or until `until` says so; in this thread."""
        asyncio.run(self._run(until))

    # --- the loop ----------------------------------------------------------------------------

    async def _run(self, until: Callable[[], bool]) -> None:
        self._loop, self._changed = asyncio.get_running_loop(), asyncio.Event()
        try:
            while not self._ending.is_set() and not until():
                if self._locked():
                    await self._work(until)
                else:
                    await self._sleep(_LOCK_S)
        finally:
            self._loop = None
            self._lock.release()

    async def _work(self, until: Callable[[], bool]) -> None:
        self._queue.recover()
        async with network.download_client(self._limits.stall_s) as client:
            throttle = Throttle(lambda: self._settings().bandwidth_mb * MB)
            transfer = Transfer(client, self._hub, throttle, self._limits, self._free)
            shared = Shared(
                library=self._library,
                queue=self._queue,
                hub=self._hub,
                transfer=transfer,
                limits=self._limits,
                places=asyncio.Semaphore(self._settings().parallel),
                renew=self._renew,
                free=self._free,
            )
            showing = asyncio.create_task(self._show_progress())
            try:
                while not self._ending.is_set() and not until():
                    try:
                        self._step(shared)
                    except WriteFailed:  # a full disk: what runs goes on, and may end it
                        log.exception("jobs.queue_not_written")
                    await self._sleep(_LOOK_S if self._tasks else _IDLE_S)
            finally:
                showing.cancel()
                await self._stop_all()
                self._sweep(self._queue.jobs())

    def _step(self, shared: Shared) -> None:
        self._try_again()
        jobs = self._queue.jobs()
        wanted = self._wanted(jobs)
        states = {job.id: job.state for job in jobs}
        for job_id, task in self._tasks.items():
            if states.get(job_id) != "running" or job_id not in wanted:
                task.cancel()
        if not any(job_id not in wanted for job_id in self._tasks):
            for job in jobs:
                if job.id in wanted and job.id not in self._tasks and self._is_ours(job):
                    self._start(job, shared)
        self._sweep(jobs)

    def _try_again(self) -> None:
        """Downloads that failed for a reason that may have passed, when their time has come."""
        if self._hub.offline_by is not None:
            return
        now = time.time()
        for job in self._queue.jobs():
            at = job.retry_at
            # Far in the future: the clock was set back.
            if at is not None and not now < at <= now + self._limits.longest_again_s:
                self._queue.try_again(job)

    def _sweep(self, jobs: list[Job]) -> None:
        Staging(self._library.folders.main).sweep(wanted_hashes(jobs))

    def _is_ours(self, job: Job) -> bool:
        """A job that runs without a task is one whose end could not be written."""
        return job.state == "running" or self._queue.claim(job.id)

    def _wanted(self, jobs: list[Job]) -> set[str]:
        """The jobs that should run now. Nothing else runs while the library moves."""
        ready = [job for job in jobs if job.state in ("queued", "running")]
        downloads = _apart([job for job in ready if job.kind == "download"])
        others = [job for job in ready if job.kind != "download"]
        if others and isinstance(others[0].work, Move):
            return {others[0].id}
        return {*downloads[: self._settings().parallel], *(job.id for job in others[:1])}

    def _start(self, job: Job, shared: Shared) -> None:
        meter = self._meters[job.id] = Meter(job.progress.total)
        task = asyncio.create_task(self._carry_out(job, shared, meter))
        self._tasks[job.id] = task

    async def _carry_out(self, job: Job, shared: Shared, meter: Meter) -> None:
        try:
            if isinstance(job.work, Download):
                result = await download(job, job.work, shared, meter)
            else:
                result = await local_work.carry_out(
                    job.work, self._library, meter, self._remember_folder
                )
        except asyncio.CancelledError:
            self._end(job, meter, lambda: self._queue.give_back(job.id))
        except TwofoldError as error:
            refusal = error
            self._end(job, meter, lambda: self._fail(job, refusal, meter))
        except Exception as error:
            log.exception("job.failed", extra={"job": job.id})
            failure = failure_of(Unexpected(kind=type(error).__name__))
            self._end(job, meter, lambda: self._queue.fail(job.id, failure))
        else:
            meter.done = meter.total
            self._end(job, meter, lambda: self._queue.finish(job.id, result))
        finally:
            self._tasks.pop(job.id, None)
            self._meters.pop(job.id, None)
            self.wake()

    def _fail(self, job: Job, error: TwofoldError, meter: Meter) -> None:
        failure = failure_of(error)
        work = self._queue.get(job.id).work
        if not isinstance(work, Download) or not isinstance(error, _PASSING):
            self._queue.fail(job.id, failure)
            return
        retries = 0 if meter.came else work.retries
        wait = min(self._limits.again_s * 2 ** min(retries, 16), self._limits.longest_again_s)
        if isinstance(error, HubOffline):
            wait = 0.0  # at once, when it is online again
        update = {"retries": retries + 1, "retry_at": time.time() + wait}
        work = work.model_copy(update=update)
        self._queue.postpone(job.id, failure, work)

    def _end(self, job: Job, meter: Meter, write: Callable[[], None]) -> None:
        """How far it came stays to be seen; how fast it was does not."""
        update = {"rate": None, "remaining_s": None, "doing": None, "step": None}
        try:
            self._queue.show(job.id, meter.progress().model_copy(update=update))
            write()
        except WriteFailed:
            log.exception("jobs.queue_not_written", extra={"job": job.id})

    async def _show_progress(self) -> None:
        shown: dict[str, object] = {}
        while True:
            for job_id, meter in list(self._meters.items()):
                progress = meter.progress()
                if shown.get(job_id) != progress:
                    shown[job_id] = progress
                    with contextlib.suppress(WriteFailed):
                        self._queue.show(job_id, progress)
            await asyncio.sleep(_SHOW_S)

    async def _stop_all(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _sleep(self, seconds: float) -> None:
        changed = cast(asyncio.Event, self._changed)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(changed.wait(), seconds)
        changed.clear()

    def _locked(self) -> bool:
        if self._lock.is_locked:
            return True
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            return False
        except OSError as error:
            reason = error.strerror or str(error)
            raise CannotWrite(path=self._lock.lock_file, reason=reason) from error
        return True


def _apart(downloads: list[Job]) -> list[str]:
    """Those of which no two want the same file: the later one finds it when its turn comes."""
    taken: set[str] = set()
    apart: list[str] = []
    for job in downloads:
        hashes = wanted_hashes([job])
        if not hashes & taken:
            apart.append(job.id)
        taken |= hashes
    return apart


def runner_lock(database: Database) -> FileLock:
    """Held by the process that works the queue; the system frees it when that process ends."""
    return FileLock(str(database.file.with_suffix(".lock")), thread_local=False)
