"""Two hundred requests of all kinds, many of them broken off: nothing leaks, all works after."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import psutil
import pytest

from tests.support.running_server import RunningServer, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

REQUESTS = 200
# Clients at once: some wait in the queue, and some are refused.
CLIENTS = 6
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


def request(chance: random.Random) -> tuple[str, str, dict[str, Any] | None]:
    """A method, a path and a body, of a kind at random."""
    text = "word " * chance.randint(1, 300)
    tokens = chance.randint(1, 30)
    long = [{"role": "user", "content": text * 99}]
    chat = {"messages": [{"role": "user", "content": text}], "max_tokens": tokens}
    return chance.choice(
        [
            ("POST", "/v1/chat/completions", chat),
            ("POST", "/v1/chat/completions", {**chat, "stream": True}),
            ("POST", "/v1/chat/completions", {**chat, "stream": True, "twofold": {"events": True}}),
            ("POST", "/v1/chat/completions", {**chat, "logprobs": True, "top_logprobs": 5}),
            (
                "POST",
                "/v1/chat/completions",
                {
                    **chat,
                    "response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}},
                },
            ),
            ("POST", "/v1/completions", {"prompt": text, "max_tokens": tokens, "stream": True}),
            ("POST", "/v1/completions", {"prompt": text, "max_tokens": tokens}),
            ("POST", "/v1/chat/completions", {"messages": []}),
            ("POST", "/v1/chat/completions", {"messages": long}),
            ("POST", "/twofold/count", {"text": text}),
            ("POST", "/twofold/cancel", {}),
            ("GET", "/twofold/memory", None),
            ("GET", "/twofold/state", None),
            ("GET", "/twofold/events", None),
            ("GET", "/v1/models", None),
            ("GET", "/nowhere", None),
        ]
    )


def one_request(server: RunningServer, seed: int) -> int | None:
    """The status; None if the client left before it came."""
    chance = random.Random(seed)
    method, path, body = request(chance)
    leaves = path == "/twofold/events" or chance.random() < 0.4
    if leaves and chance.random() < 0.5:
        _send_and_hang_up(server, method, path, body, chance.uniform(0, 0.3))
        return None
    with server.http() as http, http.stream(method, path, json=body) as response:
        for _ in response.iter_bytes():
            if leaves:
                break
        return response.status_code


def _send_and_hang_up(
    server: RunningServer, method: str, path: str, body: dict[str, Any] | None, after_s: float
) -> None:
    content = json.dumps(body or {}).encode()
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {server.token}\r\n"
        f"Content-Length: {len(content)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(head.encode() + content)
        time.sleep(after_s)


def measure(process: psutil.Process) -> tuple[int, int, int]:
    """Threads, open files, and MiB in use."""
    return process.num_threads(), process.num_fds(), process.memory_info().rss >> 20


def idle(server: RunningServer) -> bool:
    with server.client() as client:
        state = client.state()
    return state.running is None and state.waiting == 0


def test_two_hundred_requests_with_disconnects_leak_nothing(tiny: RunningServer) -> None:
    server, worker = psutil.Process(tiny.process.pid), tiny.worker

    def run(seeds: range) -> list[int | None]:
        with ThreadPoolExecutor(CLIENTS) as clients:
            statuses = list(clients.map(lambda seed: one_request(tiny, seed), seeds))
        until(lambda: idle(tiny))
        time.sleep(0.5)  # closed connections are cleared away
        return statuses

    run(range(1000, 1060))  # what is made once is made now
    before = measure(server), measure(worker)
    statuses = run(range(REQUESTS))
    after = measure(server), measure(worker)

    # 503: another client's cancel met a request that still waited
    assert set(statuses) <= {None, 200, 400, 404, 429, 503}
    assert statuses.count(200) > REQUESTS // 4
    assert statuses.count(None) > REQUESTS // 10
    for (threads, files, megabytes), (threads_after, files_after, megabytes_after) in zip(
        before, after, strict=True
    ):
        assert threads_after <= threads + 1
        assert files_after <= files + 2
        assert megabytes_after <= megabytes + 24
    assert tiny.worker.pid == worker.pid, "it never died"
    with tiny.http() as http:
        answer = http.post("/v1/completions", json={"prompt": "x", "max_tokens": 3})
        assert answer.json()["usage"]["completion_tokens"] <= 3


def test_listeners_that_read_nothing_hold_up_nobody(tiny: RunningServer) -> None:
    """Sleeping listeners of the events' stream, while requests are answered."""
    sleepers: list[httpx.Response] = []
    with tiny.http() as http:
        for _ in range(10):
            wanted = http.build_request("GET", "/twofold/events")
            sleepers.append(http.send(wanted, stream=True))
        body = {"prompt": "x", "max_tokens": 20}
        statuses: list[int] = []
        askers = [
            threading.Thread(
                target=lambda: statuses.append(http.post("/v1/completions", json=body).status_code)
            )
            for _ in range(4)
        ]
        for asker in askers:
            asker.start()
        for asker in askers:
            asker.join(30)
        for sleeper in sleepers:
            sleeper.close()
    assert statuses == [200] * 4
