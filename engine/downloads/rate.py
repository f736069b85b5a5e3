"""Rates and estimates that do not jump: averages that forget slowly, and divide out their youth."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

# What was this long ago hardly counts: for the rate, and for the time that the rest will take,
# which people watch more closely.
_RATE_S = 10.0
_ESTIMATE_S = 60.0
# Before this much time nothing is said: the first packets tell nothing.
_SILENT_S = 1.0
_STEP_S = 0.25


class _Average:
    """Exponentially weighted; divided by its weight, it is not pulled to the zero it began with."""

    def __init__(self, memory_s: float) -> None:
        self._memory_s = memory_s
        self._sum = 0.0
        self._weight = 0.0

    def add(self, rate: float, seconds: float) -> None:
        keep = math.exp(-seconds / self._memory_s)
        self._sum = self._sum * keep + rate * (1 - keep)
        self._weight = self._weight * keep + (1 - keep)

    def value(self) -> float | None:
        return self._sum / self._weight if self._weight else None


class Rate:
    """Counts units (bytes). Time before the first does not count; pauses in between do."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: float | None = None
        self._last = 0.0
        self._waiting = 0
        self._quick = _Average(_RATE_S)
        self._slow = _Average(_ESTIMATE_S)

    def add(self, count: int) -> None:
        now = self._clock()
        if self._since is None:
            self._since = self._last = now
        self._waiting += count
        self._fold(now)

    def per_second(self) -> float | None:
        """None until there is something to say."""
        return self._quick.value() if self._knows() else None

    def remaining_s(self, left: int) -> float | None:
        if left <= 0:
            return 0.0
        rate = self._slow.value() if self._knows() else None
        return left / rate if rate else None

    def _knows(self) -> bool:
        now = self._clock()
        if self._since is None or now - self._since < _SILENT_S:
            return False
        self._fold(now)
        return True

    def _fold(self, now: float) -> None:
        """Takes what has come into the averages, in steps long enough to have a rate."""
        step = now - self._last
        if step < _STEP_S:
            return
        for average in (self._quick, self._slow):
            average.add(self._waiting / step, step)
        self._waiting, self._last = 0, now
