"""One piece of work for the model, from the queue to its end, and those that make one request."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

from engine.api.failure import Failure
from engine.api.turn import PrefillProgress, TurnEvent, TurnReport
from engine.server.errors import Failed
from engine.worker.protocol import Job as JobCommand

# Between the id of a request and the number of one of its answers.
NUMBER = "."
# The answer in its several forms.
_NOT_LOGGED = {"type", "message", "answer_tokens", "stop_string"}


class Job:
    """Made by the engine. Its client reads `events`; the engine calls the rest."""

    def __init__(self, command: JobCommand) -> None:
        self.command = command
        self.id = command.id
        self.request_id = command.id.partition(NUMBER)[0]
        self.kind = command.type
        self.started = time.monotonic()
        self.progress: PrefillProgress | None = None
        self.report: TurnReport | None = None
        self.failure: Failure | None = None
        self.ended = asyncio.Event()
        self.cancelled = False
        self._events: asyncio.Queue[TurnEvent | Failure | None] = asyncio.Queue()
        self._begun = asyncio.Event()
        self._refused: Failure | None = None

    def add(self, event: TurnEvent) -> None:
        if isinstance(event, PrefillProgress):
            self.progress = event
        elif isinstance(event, TurnReport):
            self.report = event
        self._begun.set()
        self._events.put_nowait(event)

    def end(self, failure: Failure | None = None) -> None:
        if not self.ended.is_set():
            self.ended.set()
            self.failure = failure
            if not self._begun.is_set():
                self._refused = failure
                self._begun.set()
            self._events.put_nowait(failure)

    def facts(self, *, with_texts: bool) -> dict[str, Any]:
        """What the log says of it; the prompt and the answer only if asked for."""
        facts: dict[str, Any] = {
            "id": self.id,
            "kind": self.kind,
            "seconds": round(time.monotonic() - self.started, 3),
        }
        if self.failure is not None:
            facts["code"] = self.failure.code
        if self.report is not None:
            told = self.report.model_dump(exclude=_NOT_LOGGED)
            facts |= told | {"answer_tokens": len(self.report.answer_tokens)}
        if with_texts:
            facts["prompt"] = self.command.model_dump(include={"messages", "prompt"})
            facts["answer"] = self.report.message.model_dump() if self.report else None
        return facts

    async def begun(self, seconds: float) -> None:
        """Waits for the first event, but no longer. Raises Failed if the request was refused."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._begun.wait(), seconds)
        if self._refused is not None:
            raise Failed(self._refused)

    async def events(self) -> AsyncGenerator[TurnEvent]:
        """All events in order. Raises Failed where the request failed. May be read once."""
        while (event := await self._events.get()) is not None:
            if isinstance(event, Failure):
                raise Failed(event)
            yield event


class Answers:
    """The jobs of one request, `n` for each prompt: the next is queued when the one before it has
    ended, so that they take one place in the queue."""

    def __init__(
        self,
        first: Job,
        following: Sequence[JobCommand],
        n: int,
        submit: Callable[[JobCommand], Job],
        cancel: Callable[[Job], None],
    ) -> None:
        self.job = first
        self.id = first.id
        self.n = n
        self._following = following
        self._submit, self._cancel = submit, cancel
        self._given_up = False

    async def jobs(self) -> AsyncGenerator[Job]:
        """Each job when it is queued. None follows one that was cancelled. Raises what `submit`
        raises."""
        yield self.job
        for command in self._following:
            if self._given_up or self.job.cancelled:
                return
            self.job = self._submit(command)
            yield self.job

    def cancel(self) -> None:
        self._given_up = True
        self._cancel(self.job)
