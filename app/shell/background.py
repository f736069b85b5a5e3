"""Work off the window's thread; its result or error comes back on it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from PySide6.QtCore import QObject, QRunnable, Qt, QThreadPool, Signal, SignalInstance

Result = TypeVar("Result")

SWITCH_S = 0.0005


class _Home(QObject):
    """Runs callbacks on the thread that it was made on."""

    call = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.call.connect(self._run, Qt.ConnectionType.QueuedConnection)

    def _run(self, callback: Callable[[], None]) -> None:
        callback()


class _Task(QRunnable):
    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__()
        self._work = work

    def run(self) -> None:
        self._work()


class Background:
    """A few threads for work that takes longer than a frame. Make it on the window's thread."""

    def __init__(self, threads: int = 2) -> None:
        # The window's thread waits at most this long each time it wants the interpreter back.
        sys.setswitchinterval(SWITCH_S)
        self._home = _Home()
        self._call: SignalInstance = self._home.call
        self._pool = QThreadPool()
        self._pool.setMaxThreadCount(threads)
        self._closed = False

    def deliver(self, callback: Callable[[], None]) -> None:
        """Runs `callback` on the window's thread, soon. May be called from any thread."""
        if not self._closed:
            self._call.emit(callback)

    def run(
        self,
        work: Callable[[], Result],
        then: Callable[[Result], None],
        failed: Callable[[Exception], None] | None = None,
    ) -> None:
        """`then` gets the result, or `failed` the error; without it the error is raised there."""

        def guarded() -> None:
            try:
                result = work()
            except Exception as error:
                self.deliver(partial(failed or _raise, error))
                return
            self.deliver(partial(then, result))

        self._pool.start(_Task(guarded))

    def close(self) -> None:
        """Waits for what runs; nothing is delivered any more."""
        self._closed = True
        self._pool.clear()
        self._pool.waitForDone()
        self._home.deleteLater()


def _raise(error: Exception) -> None:
    raise error
