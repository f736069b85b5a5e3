"""Work off the window's thread; its result or error comes back on it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from queue import Empty, SimpleQueue
from typing import TypeVar

from PySide6.QtCore import QObject, Qt, Signal

Result = TypeVar("Result")

SWITCH_S = 0.0005


class _Home(QObject):
    """Runs callbacks on the thread that it was made on."""

    woken = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.waiting: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.woken.connect(self._run, Qt.ConnectionType.QueuedConnection)

    def call(self, callback: Callable[[], None]) -> None:
        # Only the call to wake goes through Qt: what Python made stays in Python's hands.
        self.waiting.put(callback)
        self.woken.emit()

    def _run(self) -> None:
        try:
            callback = self.waiting.get_nowait()
        except Empty:
            return
        callback()


class Background:
    """A few threads for work that takes longer than a frame. Make it on the window's thread.

    The work must not touch Qt: Qt for Python makes its types on first use, which crashes when two
    threads do it at once.
    """

    def __init__(self, threads: int = 2) -> None:
        # The window's thread waits at most this long each time it wants the interpreter back.
        sys.setswitchinterval(SWITCH_S)
        self._home = _Home()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="background")
        self._closed = False

    def deliver(self, callback: Callable[[], None]) -> None:
        """Runs `callback` on the window's thread, soon. May be called from any thread."""
        if not self._closed:
            self._home.call(callback)

    def run(
        self,
        work: Callable[[], Result],
        then: Callable[[Result], None],
        failed: Callable[[Exception], None] | None = None,
    ) -> None:
        """`then` gets the result, or `failed` the error; without it the error is raised there.
        Once closed, nothing is done: what an engine still answers comes too late."""
        if self._closed:
            return

        def guarded() -> None:
            try:
                result = work()
            except Exception as error:
                self.deliver(partial(failed or _raise, error))
                return
            self.deliver(partial(then, result))

        if not self._closed:
            self._pool.submit(guarded)

    def close(self) -> None:
        """Waits for what runs; nothing is delivered any more."""
        self._closed = True
        self._pool.shutdown(cancel_futures=True)
        self._home.deleteLater()


def _raise(error: Exception) -> None:
    raise error
