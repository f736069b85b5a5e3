"""Obeys the server's commands: one thread owns the model, another listens, a third counts."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable

from engine.api.failure import Failure
from engine.api.sampling import SamplingSettings
from engine.api.turn import PrefillProgress, TurnEvent
from engine.chat.cancellation import Cancellation
from engine.chat.session import ChatSession
from engine.chat.template import ChatTemplate
from engine.chat.tools import form_of
from engine.errors import TwofoldError
from engine.runtime.owner import OwnerThread
from engine.words import sentence
from engine.worker.grammar import grammar_of
from engine.worker.loading import OpenModel, WorkerModel
from engine.worker.protocol import (
    Ask,
    Cancel,
    Command,
    Complete,
    Count,
    Counted,
    Done,
    Event,
    Failed,
    Job,
    Load,
    Loaded,
    Loading,
    Measure,
    Measured,
    Reply,
)
from engine.worker.tool_grammar import call_grammar

Send = Callable[[Reply], None]

# Progress in between is dropped; the first and the last of a pass always go out.
PROGRESS_S = 0.05


class ModelHost:
    """`obey` is called by one thread and returns at once; replies come from any thread."""

    def __init__(self, open_model: OpenModel, send: Send) -> None:
        self._open_model = open_model
        self._send = send
        self._owner = OwnerThread()
        self._counter = OwnerThread()
        self._lock = threading.Lock()
        self._cancellations: dict[str | None, Cancellation] = {}
        self._model: WorkerModel | None = None
        self._session: ChatSession | None = None
        self._template: ChatTemplate | None = None

    def obey(self, command: Command) -> None:
        if isinstance(command, Cancel):
            self._cancel(command.id)
        elif isinstance(command, Load):
            self._expect(None)
            self._owner.submit(self._guarded, None, lambda: self._load(command))
        elif isinstance(command, (Ask, Complete)):
            self._expect(command.id)
            self._owner.submit(self._guarded, command.id, lambda: self._answer(command))
        elif isinstance(command, Measure):
            self._owner.submit(self._guarded, command.id, lambda: self._measure(command))
        else:
            self._counter.submit(self._guarded, command.id, lambda: self._count(command))

    def close(self) -> None:
        """Stops what runs, and frees the model."""
        with self._lock:
            for cancellation in self._cancellations.values():
                cancellation.cancel()
        self._counter.close()
        self._owner.submit(self._free).result()
        self._owner.close()

    def _free(self) -> None:
        if self._template is not None:
            self._template.close()
        if self._session is not None:
            self._session.close()
        if self._model is not None:
            self._model.close()

    def _expect(self, job: str | None) -> None:
        """From now on `job` can be cancelled, even before it begins."""
        with self._lock:
            self._cancellations[job] = Cancellation()

    def _cancel(self, job: str | None) -> None:
        with self._lock:
            cancellation = self._cancellations.get(job)
        if cancellation is not None:
            cancellation.cancel()

    def _guarded(self, job: str | None, work: Callable[[], None]) -> None:
        try:
            work()
        except TwofoldError as error:
            self._send(Failed(id=job, failure=failure_of(error)))
        except Exception as error:  # a bug in here must not leave a client waiting
            # Where it was, without the message: that may quote the user.
            print("".join(traceback.format_tb(error.__traceback__)), file=sys.stderr, flush=True)
            self._send(Failed(id=job, failure=failure_of(unexpected(error))))
        finally:
            with self._lock:
                self._cancellations.pop(job, None)

    # --- on the owner's thread ---------------------------------------------------------------

    def _load(self, command: Load) -> None:
        cancellation = self._cancellations[None]
        sent = 0.0

        def on_load(fraction: float) -> bool:
            nonlocal sent
            now = time.monotonic()
            if now - sent >= PROGRESS_S:
                sent = now
                self._send(Loading(fraction=fraction))
            return not cancellation.cancelled

        self._model, info = self._open_model(command.request, on_load)
        self._session = ChatSession(self._model)
        self._send(Loaded(model=info.model_copy(update={"notice": self._session.notice})))

    def _answer(self, command: Job) -> None:
        if self._session is None:
            raise NotLoaded
        cancellation = self._cancellations[command.id]
        sent = 0.0

        def on_event(event: TurnEvent) -> None:
            nonlocal sent
            if isinstance(event, PrefillProgress):
                now = time.monotonic()
                if 0 < event.tokens_done < event.tokens_total and now - sent < PROGRESS_S:
                    return
                sent = now
            self._send(Event(id=command.id, event=event))

        if isinstance(command, Ask):
            self._session.ask(
                command.messages,
                _with_grammar(command, self._session.template),
                command.path,
                on_event,
                cancellation=cancellation,
                template_options=command.template_options,
                tools=command.tools,
                continue_last=command.continue_last,
            )
        else:
            self._session.complete(
                command.prompt,
                command.sampling,
                command.path,
                on_event,
                cancellation=cancellation,
            )
        self._send(Done(id=command.id))

    def _measure(self, command: Measure) -> None:
        if self._model is None:
            raise NotLoaded
        self._send(Measured(id=command.id, memory=self._model.memory_use()))

    # --- on the counter's thread -------------------------------------------------------------

    def _count(self, command: Count) -> None:
        """Counts while the model works: a vocabulary may be read by several threads."""
        model = self._model
        if model is None:
            raise NotLoaded
        text, add_special = command.text, False
        if text is None:
            if self._template is None:
                self._template = ChatTemplate(
                    model.chat_template, bos_text=model.bos_text, eos_text=model.eos_text
                )
            rendered = self._template.render(command.messages)
            text, add_special = rendered.text, rendered.add_special
        tokens = model.tokenize(text, add_special=add_special, parse_special=True)
        self._send(Counted(id=command.id, tokens=tuple(tokens)))


def _with_grammar(command: Ask, template: str) -> SamplingSettings:
    """The sampling with what the answer has to follow, if anything."""
    grammar: str | None = None
    if command.must_call and "tools" in template:  # else the session refuses them
        grammar = call_grammar(form_of(template), template, command.tools, command.must_call)
    elif command.json_schema is not None:
        grammar = grammar_of(command.json_schema)
    return command.sampling.model_copy(update={"grammar": grammar}) if grammar else command.sampling


class NotLoaded(TwofoldError):
    """A request came before the model was loaded."""

    code = "worker.not_loaded"


class Unexpected(TwofoldError):
    """An exception that nobody foresaw. Data: its `kind`, and `where` it rose."""

    code = "worker.unexpected"


def unexpected(error: Exception) -> Unexpected:
    """Says what and where, and nothing of the text that was worked on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f"{trace.tb_frame.f_code.co_name}:{trace.tb_lineno}" if trace else "unknown"
    return Unexpected(kind=type(error).__name__, where=where)


def failure_of(error: TwofoldError) -> Failure:
    return Failure(code=error.code, sentence=sentence(error), data=error.data)
