"""One answer from the request to the stored message, whether or not its chat is on the screen."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal

from app.chat.answer_words import Reading, reading
from app.engine_client.client import Connection, EngineClient
from app.engine_client.failures import failure, sentence
from app.engine_client.turn import Turn
from app.i18n import numbers, tr
from app.store.chats import ChatStore
from app.store.owner import StoreOwner
from app.store.records import MessageStatus
from engine.api.engine import LoadProgress
from engine.api.failure import Failure
from engine.api.turn import Notice, PrefillProgress, TurnReport, TurnStarted

# What is written is kept at least this often, so that a crash costs less than a second of it.
SAVE_MS = 500


class Writer(QObject):
    """Signals: `text` when there is more of it, `reading` (Reading or words), `notice`
    (words), `ended` when the outcome is stored.

    Waits for an engine that starts or loads; gives up with a failure where none is coming.
    """

    text = Signal()
    reading = Signal(object)
    notice = Signal(str)
    ended = Signal()

    def __init__(
        self,
        engine: EngineClient,
        store: StoreOwner,
        body: dict[str, Any],
        *,
        chat: int,
        message: int,
        begun_with: tuple[str, str] = ("", ""),
        left_out: int = 0,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._engine = engine
        self._store = store
        self._body = body
        self.chat = chat
        self.message = message
        self._left_out = left_out
        self._content, self._reasoning = list(begun_with[:1]), list(begun_with[1:])
        self._turn: Turn | None = None
        self._started: TurnStarted | None = None
        self.problem: Failure | None = None  # why it failed, if it did
        self._over = False
        self._dirty = False
        self.state: Reading | str | None = None
        self._save = QTimer(self)
        self._save.setInterval(SAVE_MS)
        self._save.timeout.connect(self._save_now)
        engine.state_changed.connect(self._try)
        engine.connection_changed.connect(self._try)
        engine.loading.connect(self._on_loading)

    @property
    def content(self) -> str:
        return "".join(self._content)

    @property
    def reasoning(self) -> str:
        return "".join(self._reasoning)

    @property
    def has_content(self) -> bool:
        return any(self._content)

    @property
    def has_reasoning(self) -> bool:
        return any(self._reasoning)

    @property
    def started(self) -> TurnStarted | None:
        return self._started

    def start(self) -> None:
        self._try()

    def stop(self) -> None:
        """Ends the answer with what there is, also while it waits or the prompt is read."""
        if self._turn is not None:
            self._turn.stop()
        elif not self._over:
            self._on_stopped()

    def close(self) -> None:
        """The window goes: keeps what there is."""
        if not self._over:
            self._finish("interrupted")

    # Waiting for the engine

    def _try(self, _: object = None) -> None:
        if self._turn is not None or self._over:
            return
        engine = self._engine
        if engine.connection is Connection.STARTING:
            self._show(tr("chat.engine_starting"))
        elif engine.connection is not Connection.CONNECTED:
            self._on_failed(engine.failure or failure("window.engine_unreachable", reason=""))
        elif engine.state.status == "loading" or engine.will_load:
            self._show(tr("chat.model_loading"))
        elif engine.state.status == "failed" and engine.state.failure is not None:
            self._on_failed(engine.state.failure)
        else:
            self._ask()

    def _on_loading(self, progress: LoadProgress) -> None:
        if self._turn is None and not self._over:
            self._show(tr("chat.model_loading_part", percent=numbers.percent(progress.fraction)))

    def _ask(self) -> None:
        self._show(None)
        turn = self._engine.ask(self._body)
        self._turn = turn
        turn.started.connect(self._on_started)
        turn.progress.connect(self._on_progress)
        turn.notice.connect(self._on_notice)
        turn.reasoning.connect(self._on_reasoning)
        turn.answer.connect(self._on_answer)
        turn.finished.connect(self._on_finished)
        turn.failed.connect(self._on_failed)
        turn.stopped.connect(self._on_stopped)
        self._save.start()

    # The turn

    def _on_started(self, started: TurnStarted) -> None:
        self._started = started

    def _on_progress(self, progress: PrefillProgress) -> None:
        self._show(reading(progress))

    def _on_notice(self, notice: Notice) -> None:
        known = Failure(code=notice.code, sentence=notice.sentence, data=notice.data)
        self.notice.emit(sentence(known))

    def _on_reasoning(self, text: str) -> None:
        self._reasoning.append(text)
        self._on_text()

    def _on_answer(self, text: str) -> None:
        self._content.append(text)
        self._on_text()

    def _on_text(self) -> None:
        self._dirty = True
        self.text.emit()

    def _save_now(self) -> None:
        if not self._dirty:
            return
        self._dirty = False
        content, reasoning, message = self._settled(), self.reasoning or None, self.message
        self._store.ask(lambda store: store.save_stream(message, content, reasoning))

    def _settled(self) -> str:
        """The text so far, as one string from now on, so that joining stays cheap."""
        content = self.content
        self._content = [content]
        self._reasoning = [self.reasoning]
        return content

    def _on_finished(self, report: TurnReport) -> None:
        data = report.model_dump(mode="json")
        # The text is stored with the message; the report need not repeat it.
        data.pop("message")
        if (model := self._engine.state.model) is not None:
            data["model"] = str(model.path)
        if self._left_out:
            data["left_out"] = self._left_out
        self._finish("done", report=data)

    def _on_failed(self, problem: Failure) -> None:
        self.problem = problem
        self._finish("failed", failure=problem.model_dump(mode="json"))

    def _on_stopped(self) -> None:
        self._finish("interrupted")

    def _finish(
        self,
        status: MessageStatus,
        *,
        report: dict[str, Any] | None = None,
        failure: dict[str, Any] | None = None,
    ) -> None:
        if self._over:
            return
        self._over = True
        self._save.stop()
        for signal, slot in (
            (self._engine.state_changed, self._try),
            (self._engine.connection_changed, self._try),
            (self._engine.loading, self._on_loading),
        ):
            signal.disconnect(slot)
        message, content, reasoning = self.message, self.content, self.reasoning or None

        def write(store: ChatStore) -> None:
            store.finish(message, content, reasoning, status=status, report=report, failure=failure)

        self._store.ask(write, lambda _: self.ended.emit(), lambda _: self.ended.emit())

    def _show(self, state: Reading | str | None) -> None:
        self.state = state
        self.reading.emit(state)
