"""Raw sockets against a real server: slow, huge, malformed, and cunning requests."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator

import psutil
import pytest

from tests.support.running_server import RunningServer, running_server

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    limits = {"header_timeout_s": "0.5", "body_timeout_s": "0.5", "body_limit_mb": "1"}
    flags = [f"--set=server.{name}={value}" for name, value in limits.items()]
    with running_server(
        tmp_path_factory.mktemp("home"), *flags, "--set=server.connections=30"
    ) as found:
        yield found


def connect(server: RunningServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=10)


def head(server: RunningServer, target: str, *headers: str, method: str = "GET") -> bytes:
    lines = [f"{method} {target} HTTP/1.1", f"Authorization: Bearer {server.token}", *headers]
    if not any(header.lower().startswith("host:") for header in headers):
        lines.append("Host: 127.0.0.1")
    return "\r\n".join([*lines, "", ""]).encode()


def reply(connection: socket.socket) -> bytes:
    """All that comes until the server closes or is silent for two seconds."""
    connection.settimeout(2)
    parts = b""
    try:
        while part := connection.recv(65536):
            parts += part
    except TimeoutError:
        pass
    return parts


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


def works(server: RunningServer) -> bool:
    with server.http() as http:
        return http.get("/v1/models").status_code == 200


@pytest.mark.parametrize("sent", [b"", b"GET /v1/models HTTP/1.1\r\nHost: 127.0"])
def test_headers_that_do_not_come_close_the_connection(server: RunningServer, sent: bytes) -> None:
    with connect(server) as connection:
        connection.sendall(sent)
        started = time.monotonic()
        assert connection.recv(100) == b""
        assert time.monotonic() - started < 3


def test_a_drip_of_headers_does_not_keep_a_connection_open(server: RunningServer) -> None:
    started = time.monotonic()
    with connect(server) as connection:
        try:
            for _ in range(100):
                connection.sendall(b"X-Drip: 1\r\n" if _ else b"GET / HTTP/1.1\r\n")
                time.sleep(0.1)
        except OSError:
            pass
    assert time.monotonic() - started < 3


def test_a_slow_second_request_on_a_connection_is_closed_too(server: RunningServer) -> None:
    with connect(server) as connection:
        connection.sendall(head(server, "/v1/models"))
        answer = b""
        while not answer.endswith(b"]}"):
            answer += connection.recv(65536)
        assert status(answer) == 200
        connection.sendall(b"GET /v1/mod")
        started = time.monotonic()
        assert connection.recv(100) == b""
        assert time.monotonic() - started < 3


def test_a_slow_body_is_given_up(server: RunningServer) -> None:
    with connect(server) as connection:
        connection.sendall(head(server, "/twofold/count", "Content-Length: 100", method="POST"))
        connection.sendall(b"{")
        answer = reply(connection)
    assert status(answer) == 408
    assert b"request.too_slow" in answer


def test_a_huge_body_is_refused_unread(server: RunningServer) -> None:
    with connect(server) as connection:
        length = f"Content-Length: {1 << 40}"
        connection.sendall(head(server, "/twofold/count", length, method="POST"))
        assert status(reply(connection)) == 413


def test_a_huge_body_in_chunks_takes_no_memory(server: RunningServer) -> None:
    process = psutil.Process(server.process.pid)
    before = process.memory_info().rss
    with connect(server) as connection:
        chunked = "Transfer-Encoding: chunked"
        connection.sendall(head(server, "/twofold/count", chunked, method="POST"))
        answer = b""
        try:
            for _ in range(200):
                connection.sendall(b"100000\r\n" + b"x" * (1 << 20) + b"\r\n")
        except OSError:
            pass  # the server has closed
        else:
            answer = reply(connection)
    assert status(answer) in (0, 413)
    assert process.memory_info().rss - before < 30 << 20
    assert works(server)


@pytest.mark.parametrize(
    "target",
    [
        "/../../etc/passwd", "/v1/models/../../twofold/state", "/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd", "/v1//models", "http://evil.example/", "*", "/\\..\\x", "/v1/models?a=%00",
        "/%ff%fe", "/v1/models#x",
    ],
)  # fmt: skip
def test_cunning_paths_reach_nothing(server: RunningServer, target: str) -> None:
    with connect(server) as connection:
        connection.sendall(head(server, target, "Connection: close"))
        answer = reply(connection)
    assert status(answer) in (200, 400, 404), answer
    assert (status(answer) == 200) == target.startswith("/v1/models?")
    assert b"root:" not in answer


@pytest.mark.parametrize(
    "headers",
    [
        ("Host: evil.example",), ("Host: 127.0.0.1", "Host: evil.example"),
        ("Host: 127.0.0.1", "Origin: https://evil.example"),
        ("Host: 127.0.0.1", "Origin: null"),
    ],
)  # fmt: skip
def test_a_web_page_cannot_reach_in(server: RunningServer, headers: tuple[str, ...]) -> None:
    with connect(server) as connection:
        connection.sendall(head(server, "/v1/models", *headers, "Connection: close"))
        answer = reply(connection)
    assert status(answer) in (400, 403)
    assert b"access-control" not in answer.lower()


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET\r\n\r\n", b"\x00" * 1000,
        b"GET / HTTP/9.9\r\n\r\n", b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
    ],
)  # fmt: skip
def test_what_is_no_http_is_refused(server: RunningServer, sent: bytes) -> None:
    with connect(server) as connection:
        connection.sendall(sent)
        answer = reply(connection)
        assert status(answer) in (0, 400, 401, 403)
    if status(answer):
        error = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
        assert error["code"].startswith("request.")
        assert error["message"]
    assert works(server)


def test_no_more_connections_than_allowed_are_served(server: RunningServer) -> None:
    connections = [connect(server) for _ in range(40)]
    try:
        with connect(server) as late:
            late.sendall(head(server, "/v1/models"))
            answer = reply(late)
        assert status(answer) == 503
        assert b"retry-after: 1" in answer.lower()
        error = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
        assert error["code"] == "server.too_many_connections"
        assert error["data"] == {"limit": 30}
    finally:
        for connection in connections:
            connection.close()
    time.sleep(1)
    assert works(server)


def test_the_token_is_in_no_log(server: RunningServer) -> None:
    assert works(server)
    assert server.token not in "".join(server.stderr)
    with server.http() as http:
        log = json.dumps(http.get("/twofold/logs", params={"lines": 10_000}).json())
    assert server.token not in log
