"""Work that only the window's thread may do, cut into steps, with events between them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from PySide6.QtCore import QObject, QTimer

# Well below what a person notices, so that painting and typing go on.
STEP_S = 0.008


class Steps(QObject):
    """Runs `work` on until it ends, then calls `then`. It ends with its parent, too; the work
    itself can be gone on with. As many steps are taken between two looks at the events as fit into
    `STEP_S`, or one where the steps themselves are large.
    """

    def __init__(
        self,
        work: Iterator[object],
        then: Callable[[], None],
        parent: QObject | None = None,
        *,
        large: bool = False,
    ) -> None:
        super().__init__(parent)
        self._work = work
        self._then = then
        self._for_s = 0.0 if large else STEP_S
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._on_time)
        self._timer.start(0)

    def stop(self) -> None:
        self._timer.stop()

    def finish(self) -> None:
        """All that is left, at once."""
        if self._timer.isActive():
            for _ in self._work:
                pass
            self._end()

    def _on_time(self) -> None:
        end = time.perf_counter() + self._for_s
        for _ in self._work:
            if time.perf_counter() >= end:
                return
        self._end()

    def _end(self) -> None:
        self._timer.stop()
        self._then()
