"""A stream of server-sent events that ends its source when the client goes, and tells failures."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

# A comment goes out this often while there is nothing to tell, so that nobody in between gives up.
KEEP_ALIVE_S = 10.0
# A client that takes nothing for this long has gone without saying so.
STALLED_S = 60.0


class EventStream(Response):
    """Sends each text of `source` as one event; calls `on_end` however the stream ends."""

    media_type = "text/event-stream"

    def __init__(
        self, source: AsyncGenerator[str], *, on_end: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
        )
        del self.headers["content-length"]
        self._source = source
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        sending = asyncio.create_task(self._send(send))
        gone = asyncio.create_task(disconnected(receive))
        try:
            await asyncio.wait((sending, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._on_end()
            for task in (sending, gone):
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError, TimeoutError, OSError):
                await sending

    async def _send(self, send: Send) -> None:
        start = {
            "type": "http.response.start",
            "status": self.status_code,
            "headers": self.raw_headers,
        }
        await send(start)
        async with contextlib.aclosing(self._source) as source:
            following = asyncio.ensure_future(anext(source))
            try:
                while True:
                    done, _ = await asyncio.wait((following,), timeout=KEEP_ALIVE_S)
                    if not done:
                        await _send_text(send, ": still working\n\n")
                        continue
                    try:
                        text = following.result()
                    except StopAsyncIteration:
                        break
                    await _send_text(send, f"data: {text}\n\n")
                    following = asyncio.ensure_future(anext(source))
            finally:
                if not following.done():
                    following.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await following
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _send_text(send: Send, text: str) -> None:
    body = {"type": "http.response.body", "body": text.encode(), "more_body": True}
    await asyncio.wait_for(send(body), STALLED_S)


async def disconnected(receive: Receive) -> None:
    """Returns when the client has gone. The request's body must have been read before."""
    while (await receive())["type"] != "http.disconnect":
        pass
