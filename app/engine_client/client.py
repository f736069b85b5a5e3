"""The engine for the rest of the window: its state as it changes, and what can be asked of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from pydantic import TypeAdapter
from PySide6.QtCore import QObject, QTimer, Signal

from app.engine_client.http import Failed, Http, Stream
from app.engine_client.process import Address, EngineProcess, engine_command
from app.engine_client.turn import Turn
from engine.api.engine import (
    EngineEvent,
    EngineState,
    LoadProgress,
    LoadRequest,
    RequestProgress,
    TokenCount,
)
from engine.api.failure import Failure

# The events' stream is opened again this long after it broke without the process's end.
RECONNECT_MS = 500

_event: TypeAdapter[Any] = TypeAdapter(EngineEvent)


class Connection(Enum):
    """How things stand with the process."""

    STOPPED = "stopped"
    STARTING = "starting"
    CONNECTED = "connected"
    DIED = "died"


class EngineClient(QObject):
    """Signals: `connection_changed` (Connection), `state_changed` (EngineState), `loading`
    (LoadProgress), `request_progress` (RequestProgress of any client's), `died` (Failure).
    """

    connection_changed = Signal(object)
    state_changed = Signal(object)
    loading = Signal(object)
    request_progress = Signal(object)
    died = Signal(object)

    def __init__(self, command: Sequence[str] | None = None, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.http = Http(self)
        self._process = EngineProcess(command or engine_command(), self)
        self._process.listening.connect(self._on_listening)
        self._process.died.connect(self._on_died)
        self._connection = Connection.STOPPED
        self._state = EngineState(status="empty")
        self._failure: Failure | None = None
        self._events: Stream | None = None
        self._turns: list[Turn] = []
        self._loads = 0  # that were asked for and not answered
        self._reconnect = QTimer(self)
        self._reconnect.setSingleShot(True)
        self._reconnect.setInterval(RECONNECT_MS)
        self._reconnect.timeout.connect(self._listen)

    @property
    def connection(self) -> Connection:
        return self._connection

    @property
    def state(self) -> EngineState:
        """What the engine last said; `empty` while there is no engine."""
        return self._state

    @property
    def will_load(self) -> bool:
        """Whether a model was asked for that the engine's state does not tell of yet."""
        return self._loads > 0 and self._state.status in ("empty", "failed")

    @property
    def failure(self) -> Failure | None:
        """Why the engine died, until it is started again."""
        return self._failure

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self) -> None:
        """Starts the engine, or starts it anew."""
        self._drop_events()
        self.http.set_address(None)
        self._failure = None
        self._set_connection(Connection.STARTING)
        self._process.start()

    def close(self) -> None:
        """Ends the engine with the window."""
        self._drop_events()
        for turn in list(self._turns):
            turn.blockSignals(True)
            turn.stop()
        self._process.stop_and_wait()
        self._connection = Connection.STOPPED

    def ask(self, body: dict[str, Any]) -> Turn:
        """Posts a chat completion (see engine.api.openai.ChatRequest) and streams the answer."""
        body = {**body, "stream": True, "twofold": {**body.get("twofold", {}), "events": True}}
        turn = Turn(self.http, body, self)
        self._turns.append(turn)
        turn.over_now.connect(lambda: self._forget(turn))
        return turn

    def load(
        self,
        request: LoadRequest,
        then: Callable[[], None] | None = None,
        failed: Failed | None = None,
    ) -> None:
        """Loads a model; progress and outcome also come as the engine's state."""
        self._loads += 1

        def loaded(_: Any) -> None:
            self._loads -= 1
            if then is not None:
                then()

        def refused(problem: Failure) -> None:
            self._loads -= 1
            (failed or _ignore)(problem)
            self.state_changed.emit(self._state)  # whoever waited for the load goes on

        body = request.model_dump(mode="json", exclude_unset=True)
        self.http.post("/twofold/load", body, loaded, refused)

    def unload(self, failed: Failed | None = None) -> None:
        self.http.post("/twofold/unload", {}, lambda _: None, failed or _ignore)

    def count(
        self,
        then: Callable[[TokenCount], None],
        *,
        text: str | None = None,
        messages: list[dict[str, Any]] | None = None,
        failed: Failed | None = None,
    ) -> None:
        """Counts a text's or a rendered conversation's tokens with the loaded model."""
        body = {"text": text} if messages is None else {"messages": messages}
        self.http.post(
            "/twofold/count",
            body,
            lambda answer: then(TokenCount.model_validate(answer)),
            failed or _ignore,
        )

    def _on_listening(self, address: Address) -> None:
        self.http.set_address(address)
        self._listen()

    def _listen(self) -> None:
        self._drop_events()
        self._events = self.http.stream("/twofold/events")
        self._events.arrived.connect(self._on_event)
        self._events.ended.connect(self._on_events_ended)

    def _on_event(self, data: Any) -> None:
        event = _event.validate_python(data)
        match event:
            case EngineState():
                self._state = event
                self._set_connection(Connection.CONNECTED)
                self.state_changed.emit(event)
            case LoadProgress():
                self.loading.emit(event)
            case RequestProgress():
                self.request_progress.emit(event)
            case _:
                pass

    def _on_events_ended(self, _problem: Failure | None) -> None:
        self._events = None
        if self._connection in (Connection.CONNECTED, Connection.STARTING):
            self._reconnect.start()

    def _on_died(self, problem: Failure) -> None:
        self._drop_events()
        self.http.set_address(None)
        self._failure = problem
        self._state = EngineState(status="empty")
        for turn in list(self._turns):
            turn.end(problem)
        self._set_connection(Connection.DIED)
        self.state_changed.emit(self._state)
        self.died.emit(problem)

    def _drop_events(self) -> None:
        self._reconnect.stop()
        if self._events is not None:
            self._events.abort()
            self._events = None

    def _set_connection(self, connection: Connection) -> None:
        if connection != self._connection:
            self._connection = connection
            self.connection_changed.emit(connection)

    def _forget(self, turn: Turn) -> None:
        if turn in self._turns:
            self._turns.remove(turn)
            turn.deleteLater()


def _ignore(_: Failure) -> None:
    """The engine's state tells of it, too."""
