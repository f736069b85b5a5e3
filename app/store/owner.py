"""One thread owns the store; everybody else hands it work and is called back."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from app.store.chats import ChatStore

Result = TypeVar("Result")
Deliver = Callable[[Callable[[], None]], None]


class StoreOwner:
    """Runs work on the store's thread, in the order it came.

    `deliver` brings a callback to the caller's thread (a Qt event loop's, or at once in tests).
    """

    def __init__(self, path: Path, deliver: Deliver) -> None:
        self._path = path
        self._deliver = deliver
        # Told of errors that nobody asked to be told of.
        self.on_error: Callable[[BaseException], None] | None = None
        self._work: queue.SimpleQueue[Callable[[ChatStore | None], None] | None]
        self._work = queue.SimpleQueue()
        self._store: ChatStore | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="chat-store", daemon=True)
        self._thread.start()

    def ask(
        self,
        work: Callable[[ChatStore], Result],
        then: Callable[[Result], None] | None = None,
        failed: Callable[[BaseException], None] | None = None,
    ) -> None:
        """`then` gets the result or `failed` the error, both where `deliver` brings them."""

        def guarded(store: ChatStore | None) -> None:
            try:
                if store is None:
                    assert self._failure is not None
                    raise self._failure
                result = work(store)
            except Exception as error:
                if (handler := failed or self.on_error) is not None:
                    self._deliver(partial(handler, error))
                return
            if then is not None:
                self._deliver(partial(then, result))

        self._work.put(guarded)

    def close(self) -> None:
        """Finishes the work that is waiting, then closes the file."""
        self._work.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            self._store = ChatStore(self._path)
        except Exception as error:
            self._failure = error
        while (work := self._work.get()) is not None:
            work(self._store)
        if self._store is not None:
            self._store.close()
