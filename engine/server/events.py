"""Passes the engine's events to whoever listens; a listener that is slow loses the oldest."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from engine.api.engine import EngineEvent

QUEUED = 100

# None: there will be no more.
Listener = asyncio.Queue[EngineEvent | None]


class Broadcaster:
    def __init__(self) -> None:
        self._listeners: set[Listener] = set()

    @contextmanager
    def listening(self) -> Generator[Listener]:
        listener: Listener = asyncio.Queue(QUEUED)
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    def close(self) -> None:
        """Ends what listens now."""
        self._publish(None)

    def publish(self, event: EngineEvent) -> None:
        self._publish(event)

    def _publish(self, event: EngineEvent | None) -> None:
        for listener in self._listeners:
            if listener.full():
                listener.get_nowait()
            listener.put_nowait(event)
