"""One question to the engine, and its answer as it comes."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter
from PySide6.QtCore import QObject, QTimer, Signal

from app.engine_client.failures import ENGINE_ANSWER, ENGINE_UNREACHABLE, failure
from app.engine_client.http import Http, Stream, error_in
from engine.api.failure import Failure
from engine.api.turn import Notice, PrefillProgress, TurnEvent, TurnReport, TurnStarted

# A stop that the engine has not answered by then ends the connection, which ends the work too.
STOP_MS = 1000
# A connection that breaks may be the first sign of the engine's death: its cause comes by then.
DEATH_MS = 1000

_event: TypeAdapter[Any] = TypeAdapter(TurnEvent)


class Turn(QObject):
    """Signals, in the order they come: `started`, `progress`..., `reasoning` and `answer` with
    pieces of text, and at the end one of `finished` (a TurnReport) and `failed` (a Failure).
    `stopped` comes instead of both if the engine did not answer a stop in time.
    """

    started = Signal(object)
    progress = Signal(object)
    notice = Signal(object)
    reasoning = Signal(str)
    answer = Signal(str)
    finished = Signal(object)
    failed = Signal(object)
    stopped = Signal()
    over_now = Signal()  # after any of the three

    def __init__(self, http: Http, body: dict[str, Any], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._http = http
        self._id: str | None = None
        self._report: TurnReport | None = None
        self._over = False
        self._stop_timer = QTimer(self)
        self._stop_timer.setSingleShot(True)
        self._stop_timer.setInterval(STOP_MS)
        self._stop_timer.timeout.connect(self._give_up)
        self._doubt: Failure | None = None
        self._doubt_timer = QTimer(self)
        self._doubt_timer.setSingleShot(True)
        self._doubt_timer.setInterval(DEATH_MS)
        self._doubt_timer.timeout.connect(self._believe)
        self._stream: Stream = http.stream("/v1/chat/completions", body)
        self._stream.arrived.connect(self._on_event)
        self._stream.ended.connect(self._on_ended)

    @property
    def over(self) -> bool:
        return self._over

    def stop(self) -> None:
        """Asks the engine to stop; what was written comes back as the report."""
        if self._over or self._stop_timer.isActive():
            return
        if self._id is None:
            self._give_up()
            return
        self._stop_timer.start()
        self._http.post("/twofold/cancel", {"id": self._id}, lambda _: None, lambda _: None)

    def end(self, problem: Failure) -> None:
        """Ends the turn for a reason that the connection does not tell, as the engine's death."""
        if not self._over:
            self._stream.abort()
            self._fail(problem)

    def _give_up(self) -> None:
        if self._over:
            return
        self._over = True
        self._doubt_timer.stop()
        self._stream.abort()
        self.stopped.emit()
        self.over_now.emit()

    def _on_event(self, chunk: Any) -> None:
        if self._over:
            return
        if "error" in chunk:
            try:
                problem = error_in(chunk)
            except ValueError:
                problem = failure(ENGINE_ANSWER, reason="error")
            self._stream.abort()
            self._fail(problem)
            return
        self._id = chunk.get("id", self._id)
        for choice in chunk.get("choices", ()):
            delta = choice.get("delta", {})
            if text := delta.get("reasoning_content"):
                self.reasoning.emit(text)
            if text := delta.get("content"):
                self.answer.emit(text)
        if (event := chunk.get("twofold")) is not None:
            self._on_turn_event(_event.validate_python(event))

    def _on_turn_event(self, event: Any) -> None:
        match event:
            case TurnStarted():
                self.started.emit(event)
            case PrefillProgress():
                self.progress.emit(event)
            case Notice():
                self.notice.emit(event)
            case TurnReport():
                self._report = event
            case _:
                pass

    def _on_ended(self, problem: Failure | None) -> None:
        if self._over:
            return
        if problem is not None and problem.code != ENGINE_UNREACHABLE:
            self._fail(problem)
        elif self._report is None:
            self._doubt = problem or failure(ENGINE_ANSWER, reason="no report")
            self._doubt_timer.start()
        else:
            self._finish()
            self.finished.emit(self._report)
            self.over_now.emit()

    def _believe(self) -> None:
        """The engine lives: the connection alone broke."""
        if not self._over and self._doubt is not None:
            self._fail(self._doubt)

    def _fail(self, problem: Failure) -> None:
        self._finish()
        self.failed.emit(problem)
        self.over_now.emit()

    def _finish(self) -> None:
        self._over = True
        self._stop_timer.stop()
        self._doubt_timer.stop()
