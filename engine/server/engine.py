"""The engine as its clients see it: one worker with one model, a queue, and what became of them."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from engine.api.engine import (
    CardMemory,
    EngineState,
    LoadProgress,
    LoadRequest,
    MemoryReport,
    ModelInfo,
    RequestProgress,
    Running,
    Status,
)
from engine.api.failure import Failure
from engine.api.turn import PrefillProgress
from engine.errors import TwofoldError
from engine.probe import nvml
from engine.server.errors import (
    Failed,
    NothingLoaded,
    QueueFull,
    Replaced,
    Stopped,
    Stopping,
    failure_of,
)
from engine.server.events import Broadcaster
from engine.server.files import require_present
from engine.server.job import Answers, Job
from engine.server.worker_process import COMMAND_LINE, End, WorkerProcess
from engine.worker import protocol

log = logging.getLogger(__name__)

# A worker that goes on working this long after it was told to stop is taken to hang.
HANG_S = 30.0
RETRY_S = 5


class Engine:
    """Lives on one event loop. `queue` is how many requests may wait, `idle_s` after how long
    without one the model is unloaded (0: never), `log_texts` whether prompts and answers may be
    logged; all are asked anew each time."""

    def __init__(
        self,
        *,
        queue: Callable[[], int],
        idle_s: Callable[[], float],
        log_texts: Callable[[], bool] = lambda: False,
        worker: Sequence[str] = COMMAND_LINE,
        hang_s: float = HANG_S,
    ) -> None:
        self.events = Broadcaster()
        self._queue = queue
        self._idle_s = idle_s
        self._log_texts = log_texts
        self._command_line = worker
        self._hang_s = hang_s
        self._status: Status = "empty"
        self._worker: WorkerProcess | None = None
        self._model: ModelInfo | None = None
        self._request: LoadRequest | None = None
        self._load_started = 0.0
        self._loading: LoadProgress | None = None
        self._failure: Failure | None = None
        self._loaded: asyncio.Future[ModelInfo] | None = None
        self._asleep: ModelInfo | None = None  # unloaded when idle, and to be loaded again
        self._changing = asyncio.Lock()
        self._turn = asyncio.Lock()
        self._jobs: dict[str, Job] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._running: Job | None = None
        self._calls: dict[str, asyncio.Future[Any]] = {}
        self._numbers = itertools.count(1)
        self._last_used = time.monotonic()
        self._sleeper: asyncio.Task[None] | None = None
        self._stopping = False

    # --- state -------------------------------------------------------------------------------

    @property
    def model(self) -> ModelInfo | None:
        """The loaded model, or the one that the next request loads again."""
        return self._model or self._asleep

    def state(self) -> EngineState:
        running, now = self._running, time.monotonic()
        idle_s = self._idle_s()
        idle = self._status == "ready" and not self._jobs and idle_s > 0
        return EngineState(
            status=self._status,
            model=self.model,
            loading=self._loading,
            failure=self._failure,
            running=Running(
                id=running.id,
                kind=running.kind,
                seconds=now - running.started,
                progress=running.progress,
            )
            if running
            else None,
            waiting=sum(job is not running for job in self._jobs.values()),
            worker_pid=self._worker.pid if self._worker else None,
            idle_unload_s=max(0.0, self._last_used + idle_s - now) if idle else None,
        )

    def _publish_state(self) -> None:
        self.events.publish(self.state())

    # --- loading -----------------------------------------------------------------------------

    async def load(self, request: LoadRequest) -> ModelInfo:
        """Replaces whatever is loaded. Stops and fails the requests of the old model.

        Raises Failed with the cause, Replaced if another load or unload came in between, and
        Unreadable for a path with nothing there, before the old model is given up.
        """
        if self._stopping:
            raise Stopping
        require_present(request.model, folder=False)
        require_present(request.prefiller)
        require_present(request.draft, folder=False)
        self._abandon(Replaced())
        return await self._load(request)

    async def _load(self, request: LoadRequest) -> ModelInfo:
        loaded = self._loaded = asyncio.get_running_loop().create_future()
        loaded.add_done_callback(_retrieve)
        self._status, self._request = "loading", request
        self._model = self._asleep = self._failure = None
        self._load_started = time.monotonic()
        self._loading = LoadProgress(model=Path(request.model).name, fraction=0, seconds=0)
        self._publish_state()
        async with self._changing:
            await self._end_worker()
            if not loaded.done():
                self._worker = await WorkerProcess.start(
                    self._command_line,
                    on_reply=self._on_reply,
                    on_end=self._on_end,
                    on_log=lambda line: log.debug("worker.log", extra={"line": line}),
                )
                await self._worker.send(protocol.Load(request=request))
        return await asyncio.shield(loaded)

    async def unload(self) -> None:
        """Ends the worker, which frees all of the model's memory at once."""
        self._abandon(Replaced())
        self._status = "empty"
        self._model = self._asleep = self._failure = self._loading = None
        async with self._changing:
            await self._end_worker()
        self._publish_state()

    async def close(self) -> None:
        """Ends everything; clients that wait are told."""
        self._stopping = True
        self._abandon(Stopping())
        if self._sleeper is not None:
            self._sleeper.cancel()
        async with self._changing:
            await self._end_worker()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1)
        self.events.close()

    def _abandon(self, reason: TwofoldError) -> None:
        """Fails the load that is under way and all requests."""
        self._settle(failure_of(reason))
        self._fail_jobs(failure_of(reason))

    def _settle(self, outcome: ModelInfo | Failure) -> None:
        """Ends the wait of those who asked for the load that is under way."""
        loaded = self._loaded
        if loaded is None or loaded.done():
            return
        if isinstance(outcome, Failure):
            loaded.set_exception(Failed(outcome))
        else:
            loaded.set_result(outcome)

    async def _end_worker(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.end()

    # --- what the worker says ----------------------------------------------------------------

    def _on_reply(self, worker: WorkerProcess, reply: protocol.Reply) -> None:
        if worker is not self._worker:
            return
        if isinstance(reply, protocol.Event):
            job = self._jobs.get(reply.id)
            if job is not None:
                job.add(reply.event)
                if isinstance(reply.event, PrefillProgress):
                    self.events.publish(RequestProgress(id=job.id, progress=reply.event))
        elif isinstance(reply, protocol.Done):
            self._end_job(self._jobs.get(reply.id))
        elif isinstance(reply, protocol.Loading):
            self._on_loading(reply.fraction)
        elif isinstance(reply, protocol.Loaded):
            self._on_loaded(reply.model)
        elif isinstance(reply, protocol.Failed):
            self._on_failed(reply)
        elif call := self._calls.pop(reply.id, None):
            call.set_result(reply.tokens if isinstance(reply, protocol.Counted) else reply.memory)

    def _on_loading(self, fraction: float) -> None:
        if self._loading is None:
            return
        seconds = time.monotonic() - self._load_started
        remaining = seconds * (1 - fraction) / fraction if fraction > 0.02 else None
        self._loading = self._loading.model_copy(
            update={"fraction": fraction, "seconds": seconds, "remaining_s": remaining}
        )
        self.events.publish(self._loading)

    def _on_loaded(self, model: ModelInfo) -> None:
        self._status, self._model, self._loading = "ready", model, None
        self._touch()
        log.info("model.loaded", extra={"model": model.id, "seconds": round(model.load_s, 2)})
        self._settle(model)
        self._publish_state()

    def _on_failed(self, reply: protocol.Failed) -> None:
        if reply.id is None:
            self._fail_load(reply.failure)
        elif job := self._jobs.get(reply.id):
            self._end_job(job, reply.failure)
        elif call := self._calls.pop(reply.id, None):
            call.set_exception(Failed(reply.failure))

    def _fail_load(self, failure: Failure) -> None:
        """The worker of a load that failed is of no further use."""
        cancelled = failure.code == "model.load_cancelled"
        self._status = "empty" if cancelled else "failed"
        self._failure = None if cancelled else failure
        self._model = self._loading = None
        log.warning("model.load_failed", extra={"code": failure.code})
        self._settle(failure)
        self._start(self._end_failed_worker(self._worker))
        self._publish_state()

    async def _end_failed_worker(self, worker: WorkerProcess | None) -> None:
        async with self._changing:
            if worker is self._worker:
                await self._end_worker()

    def _on_end(self, worker: WorkerProcess, end: End) -> None:
        if worker is not self._worker or worker.ending:
            return
        doing = self._running.kind if self._running else self._status
        failure = end.failure(doing)
        log.error("worker.ended", extra={"code": failure.code, "facts": failure.data})
        self._worker = self._model = self._loading = None
        self._status, self._failure = "failed", failure
        self._settle(failure)
        self._fail_jobs(failure)
        self._publish_state()

    # --- requests ----------------------------------------------------------------------------

    def new_id(self, prefix: str) -> str:
        return f"{prefix}-{next(self._numbers)}"

    def submit(self, command: protocol.Job, *, admitted: bool = False) -> Job:
        """Queues a request. Raises QueueFull, NothingLoaded, Stopping, or Failed after a crash.

        `admitted`: it goes on with a request that has had its place in the queue.
        """
        if self._stopping:
            raise Stopping
        self.require_model()
        waiting = len(self._jobs) - 1
        if waiting >= self._queue() and not admitted:
            raise QueueFull(waiting=waiting, retry_s=RETRY_S)
        job = Job(command)
        self._jobs[job.id] = job
        self._start(self._serve(job))
        return job

    def answers(self, commands: Sequence[protocol.Job], *, n: int) -> Answers:
        """Queues a request of one or more answers, `n` for each prompt; raises as `submit`."""
        following = functools.partial(self.submit, admitted=True)
        return Answers(self.submit(commands[0]), commands[1:], n, following, self.cancel)

    def cancel(self, job: Job) -> None:
        """Stops a request, whether it runs or waits; does nothing for one that has ended."""
        if job.ended.is_set() or job.cancelled:
            return
        job.cancelled = True
        if job is self._running and self._worker is not None:
            self._start(self._interrupt(self._worker, job))
        else:
            self._end_job(job, failure_of(Stopped()))

    async def cancel_all(self, job_id: str | None = None) -> int:
        """Stops one request or, without an id, all of them and a load. Gives how many."""
        jobs = [job for job in self._jobs.values() if job_id in (None, job.id, job.request_id)]
        for job in jobs:
            self.cancel(job)
        if job_id is None and self._status == "loading" and self._worker is not None:
            await self._worker.send(protocol.Cancel())
            return len(jobs) + 1
        return len(jobs)

    async def tokens(self, command: protocol.Count) -> list[int]:
        """Answered while the model works. Raises what a job's end may say."""
        return await self._call(command)

    def settings_changed(self) -> None:
        """An idle model may now have to go."""
        if self._sleeper is not None:
            self._sleeper.cancel()
            self._sleeper = None
        self._touch()

    async def memory(self) -> MemoryReport:
        """What memory is used now; the model's own is what it was loaded with while it works."""
        use = self._model.memory if self._model else None
        resident = 0
        if self._worker is not None:
            with contextlib.suppress(psutil.Error):
                resident = psutil.Process(self._worker.pid).memory_info().rss
            if self._status == "ready" and self._running is None:
                use = await self._call(protocol.Measure(id=self.new_id("measure")))
        machine = psutil.virtual_memory()
        return MemoryReport(
            model=use,
            worker_resident=resident,
            machine_total=machine.total,
            machine_available=machine.available,
            cards=await asyncio.to_thread(_card_memory, self._worker.pid if self._worker else 0),
        )

    async def _call(self, command: protocol.Count | protocol.Measure) -> Any:
        worker = await self._ready_worker()
        call = self._calls[command.id] = asyncio.get_running_loop().create_future()
        try:
            await worker.send(command)
            return await call
        finally:
            self._calls.pop(command.id, None)

    async def _serve(self, job: Job) -> None:
        """Waits for the job's turn and holds it until the worker is done with it."""
        try:
            async with self._turn:
                if job.ended.is_set():
                    return
                worker = await self._ready_worker()
                if job.ended.is_set():
                    return
                self._running = job
                self._publish_state()
                await worker.send(job.command)
                await job.ended.wait()
        except TwofoldError as error:
            self._end_job(job, failure_of(error))
        finally:
            self._end_job(job)
            log.info("request.ended", extra=job.facts(with_texts=self._log_texts()))
            self._touch()
            self._publish_state()

    def _end_job(self, job: Job | None, failure: Failure | None = None) -> None:
        """Its client may see the end at once, so the engine is done with it before."""
        if job is None:
            return
        if self._running is job:
            self._running = None
        self._jobs.pop(job.id, None)
        job.end(failure)

    async def _interrupt(self, worker: WorkerProcess, job: Job) -> None:
        await worker.send(protocol.Cancel(id=job.id))
        try:
            await asyncio.wait_for(job.ended.wait(), self._hang_s)
        except TimeoutError:
            if worker is self._worker:
                worker.kill_hung(self._hang_s)

    async def _ready_worker(self) -> WorkerProcess:
        """The worker with its model; waits for a load, and wakes a model that sleeps."""
        self.require_model()
        if self._asleep is not None and self._request is not None:
            await self._load(self._request)
        elif self._status == "loading" and self._loaded is not None:
            await asyncio.shield(self._loaded)
        if self._worker is None:
            raise NothingLoaded
        return self._worker

    def require_model(self) -> None:
        """Raises NothingLoaded, or Failed with what became of the last model."""
        if self._failure is not None:
            raise Failed(self._failure)
        if self._status == "empty" and self._asleep is None:
            raise NothingLoaded

    def _fail_jobs(self, failure: Failure) -> None:
        for job in list(self._jobs.values()):
            self._end_job(job, failure)
        for call in self._calls.values():
            if not call.done():
                call.set_exception(Failed(failure))
        self._calls.clear()

    # --- idleness ----------------------------------------------------------------------------

    def _touch(self) -> None:
        """Something happened: the model may stay for another while."""
        self._last_used = time.monotonic()
        if self._sleeper is None or self._sleeper.done():
            self._sleeper = asyncio.create_task(self._fall_asleep())

    async def _fall_asleep(self) -> None:
        """Unloads the model once nothing has been asked of it for long enough."""
        while self._status == "ready" and not self._jobs and (idle_s := self._idle_s()) > 0:
            left = self._last_used + idle_s - time.monotonic()
            if left > 0:
                await asyncio.sleep(left)
                continue
            async with self._changing:
                if self._jobs or self._status != "ready":
                    continue
                self._asleep, self._model, self._status = self._model, None, "empty"
                await self._end_worker()
            log.info("model.unloaded", extra={"idle_s": idle_s})
            self._publish_state()

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _retrieve(future: asyncio.Future[ModelInfo]) -> None:
    """A load that nobody waits for any more may fail in silence; its state tells."""
    if not future.cancelled():
        future.exception()


def _card_memory(worker: int) -> tuple[CardMemory, ...]:
    return tuple(
        CardMemory(bus_id=bus_id, total=card.memory_total, free=card.memory_free)
        for bus_id, card in nvml.cards(worker).items()
        if card.memory_total is not None and card.memory_free is not None
    )
