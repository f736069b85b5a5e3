"""Measures how long Qt's event loop was away from its events, on a machine that others use too."""

from __future__ import annotations

import time

from PySide6.QtCore import QObject, Qt, QTimer

TICK_MS = 5


class Watchdog(QObject):
    """`longest_ms` is the longest time between two ticks of a timer, less its interval.

    Of that time only as much counts as this process computed meanwhile, on all its threads: the
    rest went to other programs, as a test machine has many. What the loop waits for while nobody
    in the process computes is left out; the window's thread does no such waiting.
    """

    def __init__(self) -> None:
        super().__init__()
        self.longest_ms = 0.0
        self._last = (0.0, 0.0)
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.setInterval(TICK_MS)
        self._timer.timeout.connect(self._tick)

    def start(self) -> None:
        self.longest_ms = 0.0
        self._last = (time.perf_counter(), time.process_time())
        self._timer.start()

    def stop(self) -> float:
        if self._timer.isActive():
            self._tick()
            self._timer.stop()
        return self.longest_ms

    def _tick(self) -> None:
        now = (time.perf_counter(), time.process_time())
        away, computed = (now[k] - self._last[k] for k in (0, 1))
        self.longest_ms = max(self.longest_ms, min(away, computed) * 1000 - TICK_MS)
        self._last = now
