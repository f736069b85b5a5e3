"""Python's garbage is collected on the window's thread only, between events.

Collected on another thread, an object of Qt's would be destroyed there, which Qt forbids; and a
full collection at a bad moment is a pause that a person sees.
"""

from __future__ import annotations

import gc
import time

from PySide6.QtCore import QObject, Qt, QTimer
from PySide6.QtGui import QGuiApplication

LOOK_MS = 250
# A full collection takes some 50 ms: it waits until nobody looks at the window, but not for ever.
LONGEST_WAIT_S = 600


class Collector(QObject):
    """To be made before the first thread is started."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._was_enabled = gc.isenabled()
        self._thresholds = gc.get_threshold()
        self._full_at = time.monotonic()
        gc.disable()
        self._timer = QTimer(self)
        self._timer.setInterval(LOOK_MS)
        self._timer.timeout.connect(self._look)

    def start(self) -> None:
        """What is there now stays for good; looking through it again and again is no use."""
        gc.freeze()
        self._timer.start()

    def close(self) -> None:
        self._timer.stop()
        gc.unfreeze()
        if self._was_enabled:
            gc.enable()

    def _look(self) -> None:
        counts = gc.get_count()
        if counts[2] > self._thresholds[2] and self._may_take_long():
            self._full_at = time.monotonic()
            gc.collect(2)
        elif counts[1] > self._thresholds[1]:
            gc.collect(1)
        elif counts[0] > self._thresholds[0]:
            gc.collect(0)

    def _may_take_long(self) -> bool:
        seen = QGuiApplication.applicationState() == Qt.ApplicationState.ApplicationActive
        return not seen or time.monotonic() - self._full_at > LONGEST_WAIT_S
