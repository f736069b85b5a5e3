"""Stands before every route: token, Host, Origin, and limits on a request's body."""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.errors import TwofoldError
from engine.server.answers import error_response
from engine.server.errors import (
    BodyTooLarge,
    BodyTooSlow,
    NoToken,
    WrongHost,
    WrongOrigin,
)
from engine.settings import MB, ServerSettings

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^:\[\]/@\\]+)(:\d{1,5})?", re.IGNORECASE)


class Guard:
    """Refuses what may not come in, before anything else looks at it.

    The body is read here, whole, within the limits; the application then has it at once.
    """

    def __init__(self, app: ASGIApp, *, token: str, settings: Callable[[], ServerSettings]) -> None:
        self._app = app
        self._token = token.encode()
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        try:
            self._admit(Headers(scope=scope))
            body = await self._body(Headers(scope=scope), receive)
        except _Gone:
            return
        except TwofoldError as error:
            await error_response(error, close=True)(scope, receive, send)
            return
        await self._app(scope, _replaying(body, receive), send)

    def _admit(self, headers: Headers) -> None:
        """Raises WrongHost, WrongOrigin or NoToken."""
        settings = self._settings()
        host = headers.get("host", "")
        matched = _HOST.fullmatch(host)
        allowed = {name.lower() for name in (*LOOPBACK_NAMES, *settings.hosts)}
        if (
            len(headers.getlist("host")) != 1
            or not matched
            or (matched["name"].lower() not in allowed)
        ):
            raise WrongHost(host=host[:200])
        origin = headers.get("origin")
        if origin is not None and origin not in settings.origins:
            raise WrongOrigin(origin=origin[:200])
        scheme, _, token = headers.get("authorization", "").partition(" ")
        given = token.strip().encode("utf-8", "replace")
        if scheme.lower() != "bearer" or not hmac.compare_digest(given, self._token):
            raise NoToken

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        """Raises BodyTooLarge or BodyTooSlow."""
        settings = self._settings()
        limit = settings.body_limit_mb * MB
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > limit:
            raise BodyTooLarge(limit=limit)
        try:
            return await asyncio.wait_for(_collect(receive, limit), settings.body_timeout_s)
        except TimeoutError:
            raise BodyTooSlow(seconds=settings.body_timeout_s) from None


class _Gone(Exception):
    """The client left before its request was whole."""


async def _collect(receive: Receive, limit: int) -> bytes:
    parts = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Gone
        parts += message.get("body", b"")
        if len(parts) > limit:
            raise BodyTooLarge(limit=limit)
        if not message.get("more_body", False):
            return bytes(parts)


def _replaying(body: bytes, receive: Receive) -> Receive:
    """Gives the body once, then what really comes: the client's leaving."""
    waiting = [body]

    async def replay() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return replay
