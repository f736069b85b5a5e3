"""Engines over a scripted worker, and applications without a socket."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from engine.api.engine import LoadRequest
from engine.server.app import make_app
from engine.server.context import Context
from engine.server.engine import Engine
from engine.settings_store import SettingsStore
from tests.support.scripted_worker import COMMAND, Script

TOKEN = "a-token-of-some-length"

RunEngine = Callable[..., AbstractAsyncContextManager[Engine]]
Scripted = Callable[..., LoadRequest]
RunApp = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]


@pytest.fixture
def run_engine() -> RunEngine:
    """An engine that is closed at the end of the block."""

    @asynccontextmanager
    async def run(
        *, queue: int = 4, idle_s: float = 0.0, hang_s: float = 30.0
    ) -> AsyncGenerator[Engine]:
        engine = Engine(queue=lambda: queue, idle_s=lambda: idle_s, worker=COMMAND, hang_s=hang_s)
        try:
            yield engine
        finally:
            await engine.close()

    return run


@pytest.fixture
def scripted(tmp_path: Path) -> Scripted:
    """A load request for a model that follows a script."""

    def write(name: str = "model", **script: Any) -> LoadRequest:
        return LoadRequest(model=str(Script(**script).write(tmp_path / f"{name}.json")))

    return write


@pytest.fixture
def run_app(tmp_path: Path) -> RunApp:
    """A client of an application whose engine has a scripted worker. It may send any header."""

    @asynccontextmanager
    async def run(
        *, headers: dict[str, str] | None = None, **flags: str
    ) -> AsyncGenerator[httpx.AsyncClient]:
        store = SettingsStore(
            file=tmp_path / "settings.toml",
            environment={},
            flags={name.replace("__", "."): value for name, value in flags.items()},
        )
        engine = Engine(queue=lambda: 4, idle_s=lambda: 0.0, worker=COMMAND)
        app = make_app(Context(engine, store), TOKEN)
        given = {"authorization": f"Bearer {TOKEN}", "host": "127.0.0.1"} | (headers or {})
        transport = httpx.ASGITransport(app)
        try:
            async with httpx.AsyncClient(
                transport=transport, base_url="http://127.0.0.1", headers=given
            ) as client:
                yield client
        finally:
            await engine.close()

    return run
