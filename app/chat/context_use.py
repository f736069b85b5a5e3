"""How much of the model's context the open chat takes, without what is being typed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal

from app.chat.conversation import estimated_tokens, request, used_tokens, with_attachments
from app.engine_client.client import EngineClient
from app.store.records import ChatSettings, MessageRow
from engine.api.engine import TokenCount

# A system prompt that is being typed is counted when the typing pauses.
COUNT_MS = 300


class ContextUse(QObject):
    """`tokens` is what the last answer's report tells, else what the engine counts; an estimate
    until it has. `changed` comes when it has."""

    changed = Signal()

    def __init__(self, engine: EngineClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._engine = engine
        self._round = 0
        self._asked: object = None  # what the engine was asked to count, or has counted
        self._messages: list[dict[str, Any]] = []
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.setInterval(COUNT_MS)
        self._later.timeout.connect(self._count)
        self.tokens = 0

    def show(self, messages: Sequence[MessageRow], settings: ChatSettings) -> None:
        written = [item for item in messages if item.status != "streaming"]
        known = used_tokens(written)
        if known is not None and (written or not settings.system_prompt):
            self._forget()
            self.tokens = known
            return
        model = self._engine.state.model
        about = (
            tuple((item.id, item.content, item.reasoning) for item in written),
            settings.system_prompt,
            model.path if model is not None else None,
        )
        if about == self._asked:
            return
        self._forget()
        self.tokens = estimated_tokens(settings.system_prompt) + sum(
            estimated_tokens(with_attachments(item.content, item.attachments)) for item in written
        )
        # The report of an answer that is being written will tell.
        if model is None or len(written) < len(messages):
            return
        self._asked = about
        self._messages = request(written, settings)["messages"]
        self._later.start()

    def _count(self) -> None:
        number = self._round

        def counted(answer: TokenCount) -> None:
            if number == self._round:
                self.tokens = answer.tokens
                self.changed.emit()

        self._engine.count(counted, messages=self._messages)

    def _forget(self) -> None:
        self._round += 1
        self._asked = None
        self._later.stop()
