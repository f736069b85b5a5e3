"""How the network is reached: time-outs, proxies, certificates, and what its failures mean.

Proxies come from HTTPS_PROXY, HTTP_PROXY and NO_PROXY; certificates from the system's store, or
from SSL_CERT_FILE, SSL_CERT_DIR, REQUESTS_CA_BUNDLE or CURL_CA_BUNDLE.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import time
import urllib.request
from pathlib import Path
from typing import Any

import httpx2
from huggingface_hub import constants
from huggingface_hub.utils import set_client_factory

from engine.downloads.errors import CertificateRefused, HubUnreachable
from engine.errors import TwofoldError

CONNECT_S = 15.0
# Between two pieces of an answer, and for a place among the open connections.
READ_S = 30.0
# For all of one description.
WHOLE_S = 120.0
# A listing's page is about a megabyte; nothing that the hub describes is larger than this.
MAX_ANSWER_BYTES = 64 << 20

_CERTIFICATES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


# Those for which huggingface-hub would try again for minutes, or as long as the server says.
_RETRIED = (408, 429, 500, 502, 503, 504)


class AnswerTooLarge(httpx2.TransportError):
    """The hub's description of something is larger than anything it could describe."""


class NoAnswer(httpx2.TransportError):
    """The request failed by its cause."""


class Refused(httpx2.TransportError):
    """The hub answered `response`, and does not want to answer now."""

    def __init__(self, response: httpx2.Response) -> None:
        super().__init__(f"status {response.status_code}", request=response.request)
        self.response = response


def timeouts(read_s: float = READ_S) -> httpx2.Timeout:
    return httpx2.Timeout(read_s, connect=min(CONNECT_S, read_s))


def certificates() -> ssl.SSLContext | bool:
    """What `verify` takes. httpx reads SSL_CERT_FILE and SSL_CERT_DIR itself."""
    for name in _CERTIFICATES:
        path = os.environ.get(name)
        if path and "SSL_CERT_FILE" not in os.environ and Path(path).exists():
            if Path(path).is_dir():
                return ssl.create_default_context(capath=path)
            return ssl.create_default_context(cafile=path)
    return True


def download_client(read_s: float = READ_S) -> httpx2.AsyncClient:
    """For files: large bodies, redirects to other hosts."""
    return httpx2.AsyncClient(
        follow_redirects=True,
        timeout=timeouts(read_s),
        verify=certificates(),
        limits=httpx2.Limits(max_connections=32, max_keepalive_connections=8),
    )


def use_for_hub() -> None:
    """Lets huggingface-hub's own requests end: by itself it waits for ever, or tries again and
    again while somebody looks at an empty list. It tells nobody which programs run here."""
    set_client_factory(_hub_client)
    constants.HF_HUB_DISABLE_TELEMETRY = True


class _Client(httpx2.Client):
    """Its answers have an end, and its failures are none that huggingface-hub tries again after."""

    def send(
        self, request: httpx2.Request, *, stream: bool = False, **options: Any
    ) -> httpx2.Response:
        try:
            response = self._sent(request, **options)
            return response if stream else _read_whole(response)
        except (httpx2.TimeoutException, httpx2.NetworkError, httpx2.RemoteProtocolError) as error:
            raise NoAnswer(str(error), request=request) from error

    def _sent(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        try:
            return super().send(request, stream=True, **options)
        except (httpx2.ReadError, httpx2.RemoteProtocolError):
            # The server may have closed the connection that was kept for this one.
            return super().send(request, stream=True, **options)


def _read_whole(response: httpx2.Response) -> httpx2.Response:
    """The same answer, read; a server may send without end, or a little that unpacks to a lot."""
    body, end = bytearray(), time.monotonic() + WHOLE_S
    with contextlib.closing(response):
        for piece in response.iter_bytes():
            body += piece
            if len(body) > MAX_ANSWER_BYTES:
                raise AnswerTooLarge("the answer does not end", request=response.request)
            if time.monotonic() > end:
                raise httpx2.ReadTimeout("the answer does not end", request=response.request)
    headers = [
        (name, value)
        for name, value in response.headers.multi_items()
        if name.lower() not in ("content-encoding", "content-length", "transfer-encoding")
    ]
    return httpx2.Response(
        response.status_code,
        headers=headers,
        content=bytes(body),
        request=response.request,
        extensions=response.extensions,
        history=response.history,
    )


def _hub_client() -> httpx2.Client:
    return _Client(
        follow_redirects=True,
        timeout=timeouts(),
        verify=certificates(),
        event_hooks={"request": [_limit_time], "response": [_limit_size, _refuse]},
    )


def _refuse(response: httpx2.Response) -> None:
    if response.status_code in _RETRIED:
        raise Refused(response)


def _limit_time(request: httpx2.Request) -> None:
    # huggingface-hub asks for no time-out where its caller cannot name one.
    request.extensions = {**request.extensions, "timeout": timeouts().as_dict()}


def _limit_size(response: httpx2.Response) -> None:
    length = response.headers.get("content-length", "")
    if length.isdecimal() and int(length) > MAX_ANSWER_BYTES:
        raise AnswerTooLarge(f"the answer has {length} bytes", request=response.request)


def network_error(error: Exception, endpoint: str) -> TwofoldError:
    """The failure that `error` of a request to `endpoint` stands for."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            reason = cause.verify_message or str(cause)
            return CertificateRefused(endpoint=endpoint, reason=reason)
        cause = cause.__cause__ or cause.__context__
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return CertificateRefused(endpoint=endpoint, reason="it cannot be verified")
    if isinstance(error, NoAnswer) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    reason, hint = reason_of(error), _proxy_hint(error, endpoint)
    return HubUnreachable(endpoint=endpoint, reason=reason, hint=hint)


def reason_of(error: Exception) -> str:
    if isinstance(error, httpx2.ConnectTimeout | httpx2.ReadTimeout):
        return "no answer in time"
    return str(error) or type(error).__name__


def _proxy_hint(error: Exception, endpoint: str) -> str:
    if not isinstance(error, httpx2.ProxyError | httpx2.ConnectError):
        return ""
    proxies = urllib.request.getproxies()
    proxy = proxies.get(endpoint.partition("://")[0]) or proxies.get("all")
    return f" The proxy in use is {_without_password(proxy)}." if proxy else ""


def _without_password(proxy: str) -> str:
    scheme, separator, rest = proxy.rpartition("://")
    return scheme + separator + rest.rpartition("@")[2]
