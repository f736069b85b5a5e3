"""Runs one turn on the model's thread while this one prints it and listens for Ctrl-C."""

from __future__ import annotations

import queue
import sys
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from engine.api.turn import (
    AnswerText,
    Notice,
    PrefillProgress,
    ReasoningText,
    TurnEvent,
    TurnReport,
)
from engine.chat.cancellation import Cancellation
from engine.cli.interrupts import Interrupts
from engine.runtime.owner import OwnerThread

# A turn that ends without an event is noticed after this, in seconds.
_POLL_S = 0.1

Turn = Callable[[Callable[[TurnEvent], None], Cancellation], TurnReport]


class PrefillLine:
    """One line on stderr while the prompt is read: live on a terminal, else said once."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("Reading"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[facts]}"),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def show(self, progress: PrefillProgress) -> None:
        if self._task is None:
            if not self._console.is_terminal:
                self._console.print(
                    f"Reading {progress.tokens_total:,} tokens ({progress.path})", soft_wrap=True
                )
            self._progress.start()
            self._task = self._progress.add_task("", total=progress.tokens_total, facts="")
        self._progress.update(self._task, completed=progress.tokens_done, facts=_facts(progress))

    def close(self) -> None:
        self._progress.stop()
        self._task = None


def _facts(progress: PrefillProgress) -> str:
    done, total, seconds = progress.tokens_done, progress.tokens_total, progress.seconds
    facts = [f"{done:,} of {total:,} tokens"]
    if progress.blocks:
        facts.append(f"block {progress.block} of {progress.blocks}")
    if progress.bytes_read:
        facts.append(f"{progress.bytes_per_s / 1e9:.2f} GB/s")
    if progress.remaining_s is not None and seconds > 0.5:
        facts.append(f"about {max(1, round(progress.remaining_s))} s")
    return " · ".join(facts)


def run_turn(
    owner: OwnerThread, turn: Turn, *, console: Console, interrupts: Interrupts
) -> TurnReport:
    """Answer to stdout, everything else to `console` (stderr). Ctrl-C cancels the turn.

    Raises what the turn raises.
    """
    events: queue.Queue[TurnEvent] = queue.Queue()
    cancellation = Cancellation()
    with interrupts.stopping(cancellation.cancel), PrefillLine(console) as line:
        running = owner.submit(turn, events.put, cancellation)
        printer = _Printer(console, line)
        while not (running.done() and events.empty()):
            _take(events, running, printer)
    return running.result()


def _take(events: queue.Queue[TurnEvent], running: Future[TurnReport], printer: _Printer) -> None:
    try:
        event = events.get(timeout=0 if running.done() else _POLL_S)
    except queue.Empty:
        return
    printer.show(event)


class _Printer:
    """Writes events as they come; reasoning is dim and goes to stderr."""

    def __init__(self, console: Console, line: PrefillLine) -> None:
        self._console = console
        self._line = line

    def show(self, event: TurnEvent) -> None:
        if isinstance(event, PrefillProgress):
            self._line.show(event)
            return
        if isinstance(event, Notice):
            self._console.print(event.sentence, style="yellow", highlight=False)
            return
        if isinstance(event, AnswerText):
            self._line.close()
            sys.stdout.write(event.text)
            sys.stdout.flush()
        elif isinstance(event, ReasoningText):
            self._line.close()
            self._console.print(event.text, style="dim", end="", highlight=False, markup=False)
        elif isinstance(event, TurnReport):
            self._line.close()
            if event.message.content:
                sys.stdout.write("\n")
                sys.stdout.flush()
