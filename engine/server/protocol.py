"""uvicorn's HTTP/1.1 protocol, with limits on connections and on how long headers may take."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from engine.server.answers import error_response
from engine.server.errors import NotHttp, TooManyConnections


class LimitedProtocol(H11Protocol):
    """Closes a connection that does not get a request's headers across in time, and answers those
    beyond `most_connections` with an error in the form that all others have.

    uvicorn bounds the pause between requests, but neither the first request's headers nor those
    of a later one once a byte of it has come; and its own limit answers in plain text.
    """

    header_timeout_s: float = 10.0
    most_connections: int = 100

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle | None = None
        self._served: ASGIApp = self.app

    @classmethod
    def limited(cls, *, header_timeout_s: float, connections: int) -> type[LimitedProtocol]:
        limits = {"header_timeout_s": header_timeout_s, "most_connections": connections}
        return type("LimitedProtocol", (cls,), limits)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_headers()

    def data_received(self, data: bytes) -> None:
        if self._deadline is None and not self._busy():
            self._wait_for_headers()
        crowded = len(self.connections) > self.most_connections
        self.app = self._refusal() if crowded else self._served
        super().data_received(data)
        if self._busy():
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _refusal(self) -> ASGIApp:
        return error_response(TooManyConnections(limit=self.most_connections), close=True)

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP gets an error like any other, and no plain text."""
        answer = error_response(NotHttp(problem=msg), close=True)
        headers = [*answer.raw_headers]
        start = h11.Response(status_code=answer.status_code, headers=headers, reason=b"Bad Request")
        for event in (start, h11.Data(data=bytes(answer.body)), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _busy(self) -> bool:
        """Whether a request is being read or answered."""
        cycle: Any = self.cycle
        return cycle is not None and not cycle.response_complete

    def _wait_for_headers(self) -> None:
        self._deadline = self.loop.call_later(self.header_timeout_s, self._give_up)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        if not self._busy() and not self.transport.is_closing():
            self.transport.close()
