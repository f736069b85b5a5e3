"""An answer on the screen while it is written: parsed in the background, a few times a second."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer

from app.chat.message_rows import segment_row
from app.chat.rows import Row
from app.shell.background import Background
from app.text.live import LiveText
from app.text.segments import Segment

# Often enough to look continuous, seldom enough to leave the time to everything else.
UPDATE_MS = 50


class LiveAnswer(QObject):
    """Rows for a text that grows. `changed` is called with the row that shows other text now, or
    with None when there are other rows."""

    def __init__(
        self,
        message: int,
        background: Background,
        changed: Callable[[Row | None], None],
        *,
        thought: bool = False,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._message = message
        self._background = background
        self._changed = changed
        self._thought = thought
        self._live_text = LiveText()
        self._text_now: Callable[[], str] | None = None
        self._grown = False
        self._parsing = False
        self._ended = False
        self._settled: list[Row] = []
        self._live: list[Row] = []
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(UPDATE_MS)
        self._timer.timeout.connect(self._parse)

    @property
    def rows(self) -> list[Row]:
        return self._settled + self._live

    @property
    def started(self) -> bool:
        return self._text_now is not None

    def grow(self, text_now: Callable[[], str]) -> None:
        """There is more text; `text_now` gives all of it when it is needed."""
        self._text_now = text_now
        self._grown = True
        if not self._timer.isActive() and not self._parsing:
            self._timer.start()

    def end(self) -> None:
        self._ended = True
        self._timer.stop()

    def _parse(self) -> None:
        if self._parsing or self._ended or not self._grown or self._text_now is None:
            return
        self._parsing = True
        self._grown = False
        text = self._text_now()
        live_text = self._live_text

        def done(result: tuple[list[Segment], list[Segment]]) -> None:
            self._parsing = False
            if self._ended:
                return
            self._show(*result)
            if self._grown:
                self._timer.start()

        self._background.run(lambda: live_text.update(text), done)

    def _show(self, settled: list[Segment], live: list[Segment]) -> None:
        """The live rows become the settled ones as far as they go; the rest is added."""
        wanted = settled + live
        rows: list[Row] = []
        changed: list[Row] = []
        for number, segment in enumerate(wanted):
            new = segment_row(self._message, segment, card=False, thought=self._thought)
            old = self._live[number] if number < len(self._live) else None
            if old is None or old.kind != new.kind or old.gap != new.gap:
                rows.append(new)
                continue
            rows.append(old)
            if old.data != segment:
                old.data = segment
                changed.append(old)
        other_rows = len(rows) != len(self._live) or any(
            a is not b for a, b in zip(rows, self._live, strict=False)
        )
        self._settled += rows[: len(settled)]
        self._live = rows[len(settled) :]
        for row in changed:
            self._changed(row)
        if other_rows:
            self._changed(None)
