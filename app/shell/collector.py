"""Python's garbage is collected on the window's thread only, between events.

Collected on another thread, an object of Qt's would be destroyed there, which Qt forbids; and a
full collection at a bad moment is a pause that a person sees.
"""

from __future__ import annotations

import gc

from PySide6.QtCore import QObject, QTimer

LOOK_MS = 250


class Collector(QObject):
    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._thresholds = gc.get_threshold()
        gc.disable()
        # What the start has made stays for good; looking through it again and again is no use.
        gc.freeze()
        self._timer = QTimer(self)
        self._timer.setInterval(LOOK_MS)
        self._timer.timeout.connect(self._look)
        self._timer.start()

    def close(self) -> None:
        self._timer.stop()
        gc.unfreeze()
        gc.enable()

    def _look(self) -> None:
        counts = gc.get_count()
        for generation in (2, 1, 0):
            if counts[generation] > self._thresholds[generation]:
                gc.collect(generation)
                return
