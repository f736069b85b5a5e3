"""Ctrl-C as a request that finds its place: it stops what runs, and never strikes in between."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Self


class Interrupts:
    """While this is entered (on the main thread), Ctrl-C calls what `stopping` names.

    Where nothing can be stopped it only wakes `wait`.
    """

    def __init__(self) -> None:
        self._stop: Callable[[], None] | None = None
        self._raises = False
        self._wake: tuple[int, int] = (-1, -1)
        self._before: object = None

    def __enter__(self) -> Self:
        self._wake = os.pipe()
        self._before = signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        signal.signal(signal.SIGINT, self._before)  # type: ignore[arg-type]  # as it was given
        for end in self._wake:
            os.close(end)

    def _interrupt(self, _signal: int, _frame: FrameType | None) -> None:
        if self._stop is not None:
            self._stop()
        elif self._raises:
            raise KeyboardInterrupt
        else:
            os.write(self._wake[1], b"!")

    @contextmanager
    def stopping(self, stop: Callable[[], None]) -> Generator[None, None, None]:
        """Ctrl-C calls `stop` (quick, from the main thread) while the block runs."""
        self._stop = stop
        try:
            yield
        finally:
            self._stop = None

    @contextmanager
    def raising(self) -> Generator[None, None, None]:
        """Ctrl-C raises KeyboardInterrupt while the block runs, as `input` needs it."""
        self._raises = True
        try:
            yield
        finally:
            self._raises = False

    def wait(self, descriptor: int) -> bool:
        """Waits until `descriptor` can be read: True. False when Ctrl-C came first."""
        ready, _, _ = select.select([descriptor, self._wake[0]], [], [])
        if self._wake[0] not in ready:
            return True
        os.read(self._wake[0], 4096)
        return False
