"""Nothing gets in without the token, by another name, from a web page, too large or too slow."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from engine.server.guard import Guard
from engine.settings import ServerSettings
from tests.unit.server.conftest import TOKEN, RunApp

ROUTES = ("/v1/models", "/twofold/state", "/twofold/settings", "/openapi.json", "/nothing", "/")


def get(run_app: RunApp, path: str = "/v1/models", **options: object) -> httpx.Response:
    async def ask() -> httpx.Response:
        async with run_app(**options) as client:  # type: ignore[arg-type]
            return await client.get(path)

    return asyncio.run(ask())


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", TOKEN],
)
@pytest.mark.parametrize("path", ROUTES)
def test_without_the_token_every_route_is_closed(run_app: RunApp, header: str, path: str) -> None:
    response = get(run_app, path, headers={"authorization": header})
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    error = response.json()["error"]
    assert (error["code"], error["type"]) == ("request.no_token", "authentication_error")
    assert TOKEN not in response.text


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:8080", "LOCALHOST", "[::1]:9"])
def test_loopback_names_are_answered(run_app: RunApp, host: str) -> None:
    assert get(run_app, headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "", "localhost:x",
        "user@localhost", "localhost/", "[::1", "0.0.0.0", "localhost:123456",
    ],
)  # fmt: skip
def test_other_hosts_are_refused_even_with_the_token(run_app: RunApp, host: str) -> None:
    response = get(run_app, headers={"host": host})
    assert response.status_code == 403
    assert response.json()["error"]["code"] == "request.wrong_host"


def test_a_host_that_the_user_named_is_answered(run_app: RunApp) -> None:
    response = get(run_app, headers={"host": "studio.lan:80"}, server__hosts="studio.lan")
    assert response.status_code == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:3000", ""])
def test_web_pages_may_not_call(run_app: RunApp, origin: str) -> None:
    response = get(run_app, headers={"origin": origin})
    assert response.status_code == 403
    assert response.json()["error"]["code"] == "request.wrong_origin"
    assert "access-control-allow-origin" not in response.headers


def test_a_page_that_the_user_named_may_call(run_app: RunApp) -> None:
    page = "https://notes.example"

    async def check() -> None:
        async with run_app(server__origins=page) as client:
            answer = await client.get("/v1/models", headers={"origin": page})
            assert answer.status_code == 200
            assert answer.headers["access-control-allow-origin"] == page
            asked = await client.options(
                "/v1/chat/completions",
                headers={
                    "origin": page,
                    "access-control-request-method": "POST",
                    "access-control-request-headers": "authorization",
                    "authorization": "",
                },
            )
            assert asked.status_code == 200
            other = await client.get("/v1/models", headers={"origin": "https://other.example"})
            assert other.status_code == 403

    asyncio.run(check())


@pytest.mark.parametrize(
    "path",
    [
        "/../etc/passwd", "/..%2f..%2fetc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//v1/models",
        "/v1/models/", "/v1/models%00", "/V1/MODELS",
        "/v1/models;x=1", "/" + "a" * 5000,
    ],
)  # fmt: skip
def test_paths_that_are_no_routes_lead_nowhere(run_app: RunApp, path: str) -> None:
    response = get(run_app, path)
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "request.no_route"


def test_a_wrong_method_is_told_the_right_one(run_app: RunApp) -> None:
    response = get(run_app, "/twofold/load")
    assert response.status_code == 405
    assert response.headers["allow"] == "POST"


def test_a_large_body_is_refused_by_its_announced_length(run_app: RunApp) -> None:
    async def check() -> None:
        async with run_app(server__body_limit_mb="1") as client:
            response = await client.post("/twofold/count", content=b"x" * 1_000_001)
            assert response.status_code == 413
            assert response.headers["connection"] == "close"

    asyncio.run(check())


class Asked:
    """A request whose body comes in parts, and the response's start."""

    def __init__(self, *parts: bytes, pause_s: float = 0.0) -> None:
        self._parts = list(parts)
        self._pause_s = pause_s
        self.status: int | None = None
        self.taken = 0

    async def receive(self) -> Message:
        await asyncio.sleep(self._pause_s)
        if not self._parts:
            return {"type": "http.disconnect"}
        part = self._parts.pop(0)
        self.taken += len(part)
        return {"type": "http.request", "body": part, "more_body": True}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]

    async def ask(self, settings: ServerSettings) -> None:
        async def never(_: Scope, __: Receive, ___: Send) -> None:
            raise AssertionError("the application was reached")

        guard = Guard(never, token=TOKEN, settings=lambda: settings)
        headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {TOKEN}".encode())]
        scope = {"type": "http", "method": "POST", "path": "/", "headers": headers}
        await guard(scope, self.receive, self.send)


def test_a_large_body_without_a_length_is_not_read_to_its_end() -> None:
    asked = Asked(*[b"x" * 65536] * 1000)
    asyncio.run(asked.ask(ServerSettings(body_limit_mb=1)))
    assert asked.status == 413
    assert asked.taken <= 1_000_000 + 65536


def test_a_slow_body_is_given_up() -> None:
    asked = Asked(*[b"x"] * 1000, pause_s=0.05)
    asyncio.run(asked.ask(ServerSettings(body_timeout_s=0.2)))
    assert asked.status == 408


def test_a_client_that_leaves_before_its_body_is_whole_reaches_nothing() -> None:
    asked = Asked(b"{")
    asyncio.run(asked.ask(ServerSettings()))
    assert asked.status is None
