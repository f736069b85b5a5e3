"""HTTP to the engine on Qt's event loop: JSON requests, and streams of events."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

from PySide6.QtCore import QByteArray, QObject, QUrl, Signal
from PySide6.QtNetwork import (
    QNetworkAccessManager,
    QNetworkProxy,
    QNetworkReply,
    QNetworkRequest,
)

from app.engine_client.failures import ENGINE_ANSWER, ENGINE_UNREACHABLE, failure
from app.engine_client.process import Address
from app.engine_client.sse import EventParser
from engine.api.failure import Failure

Then = Callable[[Any], None]
_FIRST_OF_HTTP = 100  # the errors below it are the connection's
Failed = Callable[[Failure], None]


class Stream(QObject):
    """Server-sent events: `arrived` with each one's JSON, `ended` with None or a Failure."""

    arrived = Signal(object)
    ended = Signal(object)

    def __init__(self, reply: QNetworkReply, parent: QObject) -> None:
        super().__init__(parent)
        self._reply = reply
        self._parser = EventParser()
        self._done = False
        reply.setParent(self)
        reply.readyRead.connect(self._read)
        reply.finished.connect(self._finish)

    def abort(self) -> None:
        """Ends the stream; nothing more is sent."""
        if not self._done:
            self._done = True
            self._reply.abort()
            self.deleteLater()

    def _read(self) -> None:
        if self._done or _status(self._reply) >= 400:
            return
        for text in self._parser.feed(bytes(self._reply.readAll().data())):
            if text != "[DONE]":
                self.arrived.emit(json.loads(text))
            if self._done:  # whoever listens may have ended the stream
                return

    def _finish(self) -> None:
        if self._done:
            return
        self._read()
        if self._done:
            return
        self._done = True
        problem = failure_of(self._reply)
        self.ended.emit(problem)
        self.deleteLater()


class Http(QObject):
    """Calls the engine at one address; every call returns at once."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._network = QNetworkAccessManager(self)
        # The engine is on this machine: the user's proxy has no business between.
        self._network.setProxy(QNetworkProxy(QNetworkProxy.ProxyType.NoProxy))
        self._network.setTransferTimeout(0)
        self._address: Address | None = None

    def set_address(self, address: Address | None) -> None:
        self._address = address

    def get(self, path: str, then: Then, failed: Failed) -> None:
        self._answer(self._network.get(self._request(path)), then, failed)

    def post(self, path: str, body: Any, then: Then, failed: Failed) -> None:
        self._answer(self._network.post(self._request(path), _json(body)), then, failed)

    def put(self, path: str, body: Any, then: Then, failed: Failed) -> None:
        self._answer(self._network.put(self._request(path), _json(body)), then, failed)

    def fetch(self, path: str, body: Any, then: Callable[[bytes], None], failed: Failed) -> None:
        """The answer as it came, to be read elsewhere. Posts `body`, or gets without one."""
        request = self._request(path)
        if body is None:
            reply = self._network.get(request)
        else:
            reply = self._network.post(request, _json(body))
        self._content(reply, then, failed)

    def stream(self, path: str, body: Any = None) -> Stream:
        """Posts `body`, or gets where there is none."""
        request = self._request(path)
        request.setRawHeader(b"Accept", b"text/event-stream")
        reply = (
            self._network.get(request) if body is None else self._network.post(request, _json(body))
        )
        return Stream(reply, self)

    def _request(self, path: str) -> QNetworkRequest:
        address = self._address
        # Without an engine the request fails as it would with one that is gone.
        url = address.url if address is not None else "http://127.0.0.1:1"
        request = QNetworkRequest(QUrl(url + path))
        request.setHeader(QNetworkRequest.KnownHeaders.ContentTypeHeader, "application/json")
        if address is not None:
            request.setRawHeader(b"Authorization", f"Bearer {address.token}".encode())
        return request

    def _answer(self, reply: QNetworkReply, then: Then, failed: Failed) -> None:
        def read(content: bytes) -> None:
            try:
                answer = json.loads(content or b"null")
            except ValueError:
                failed(failure(ENGINE_ANSWER, reason="JSON"))
                return
            then(answer)

        self._content(reply, read, failed)

    def _content(self, reply: QNetworkReply, then: Callable[[bytes], None], failed: Failed) -> None:
        reply.setParent(self)

        def finished() -> None:
            reply.deleteLater()
            problem = failure_of(reply)
            if problem is not None:
                failed(problem)
            else:
                then(bytes(reply.readAll().data()))

        reply.finished.connect(finished)


def failure_of(reply: QNetworkReply) -> Failure | None:
    """Why a finished reply is no answer; None if it is one."""
    if reply.error() == QNetworkReply.NetworkError.NoError:
        return None
    status = _status(reply)
    # A connection may also break in the middle of an answer that began well.
    if status == 0 or reply.error().value < _FIRST_OF_HTTP:
        return failure(ENGINE_UNREACHABLE, reason=reply.errorString())
    try:
        return error_in(json.loads(bytes(reply.readAll().data())))
    except ValueError:
        return failure(ENGINE_ANSWER, reason=f"HTTP {status}")


def error_in(body: Any) -> Failure:
    """The failure that an error's body tells. Raises ValueError if it is none."""
    try:
        error = cast("dict[str, Any]", body["error"])
        return Failure(
            code=str(error["code"]),
            sentence=str(error["message"]),
            data=error.get("data") or {},
            log=tuple(error.get("log") or ()),
        )
    except (KeyError, TypeError) as problem:
        raise ValueError("not an error's body") from problem


def _status(reply: QNetworkReply) -> int:
    status = reply.attribute(QNetworkRequest.Attribute.HttpStatusCodeAttribute)
    return int(status) if status is not None else 0


def _json(body: Any) -> QByteArray:
    return QByteArray(json.dumps(body, ensure_ascii=False).encode())
