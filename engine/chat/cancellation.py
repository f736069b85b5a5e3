"""Stops one turn, from any thread, whether it has begun or not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager


class Cancellation:
    """Made by the caller of a turn and used once.

    `cancel` marks the turn and interrupts what it is doing. It never reaches a later turn: the
    interrupt is held only while this turn runs.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal handler may cancel from the same thread
        self._interrupt: Callable[[], None] | None = None
        self.cancelled = False

    def cancel(self) -> None:
        with self._lock:
            self.cancelled = True
            if self._interrupt is not None:
                self._interrupt()

    @contextmanager
    def interrupting(self, interrupt: Callable[[], None]) -> Generator[None, None, None]:
        """Calls `interrupt` (quick, from any thread) on `cancel` while the block runs."""
        with self._lock:
            self._interrupt = interrupt
        try:
            yield
        finally:
            with self._lock:
                self._interrupt = None
