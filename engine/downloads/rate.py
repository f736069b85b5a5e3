"""Rates and estimates that do not jump: a smoothed rate, and the time that the rest takes at it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

# The rate forgets what was this long ago.
_MEMORY_S = 12.0
# Before this much time nothing is said: the first packets tell nothing.
_SILENT_S = 1.0
_STEP_S = 0.25


class Rate:
    """Counts units (bytes) and gives their smoothed rate. Idle time before the first does not
    count; pauses in between do."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: float | None = None
        self._last = 0.0
        self._waiting = 0
        self._smooth = 0.0
        self._weight = 0.0

    def add(self, count: int) -> None:
        now = self._clock()
        if self._since is None:
            self._since = self._last = now
        self._waiting += count
        self._fold(now)

    def per_second(self) -> float | None:
        """None until there is something to say."""
        now = self._clock()
        if self._since is None or now - self._since < _SILENT_S:
            return None
        self._fold(now)
        return self._smooth / self._weight if self._weight else None

    def remaining_s(self, left: int) -> float | None:
        rate = self.per_second()
        if left <= 0:
            return 0.0
        return left / rate if rate else None

    def _fold(self, now: float) -> None:
        """Takes what has come into the average, in steps long enough to have a rate."""
        step = now - self._last
        if step < _STEP_S:
            return
        keep = math.exp(-step / _MEMORY_S)
        self._smooth = self._smooth * keep + self._waiting / step * (1 - keep)
        # Divided by the weight, a young average is not pulled towards the zero it began with.
        self._weight = self._weight * keep + (1 - keep)
        self._waiting, self._last = 0, now
