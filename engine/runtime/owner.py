"""The one thread that owns a model: everything that touches it runs there, in order."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class OwnerThread:
    """Runs calls one after another on a thread of its own; results and errors come as futures."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="model-owner")

    def submit(self, call: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        return self._pool.submit(call, *args, **kwargs)

    def close(self) -> None:
        """Waits for what runs, drops what waits."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
