"""Passes the engine's events to whoever listens; a listener that is slow loses the oldest."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from engine.api.engine import EngineEvent

QUEUED = 100

Listener = asyncio.Queue[EngineEvent]


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

    def publish(self, event: EngineEvent) -> None:
        for listener in self._listeners:
            if listener.full():
                listener.get_nowait()
            listener.put_nowait(event)
