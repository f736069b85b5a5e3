"""Keeps all downloads together below one bandwidth."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

_BURST_S = 0.25


class Throttle:
    """`limit` is asked anew each time: bytes a second, 0 for none."""

    def __init__(
        self, limit: Callable[[], float], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit = limit
        self._clock = clock
        self._free_at = 0.0

    async def take(self, count: int) -> None:
        """Returns when `count` more bytes may come."""
        limit = self._limit()
        if limit <= 0:
            return
        now = self._clock()
        self._free_at = max(self._free_at, now - _BURST_S) + count / limit
        if (wait := self._free_at - now) > 0:
            await asyncio.sleep(wait)
