"""The installed backends over HTTP: seen as the last check left them, switched, never opened."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from engine.backends import store
from tests.unit.server.conftest import RunApp


@pytest.fixture
def unfit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed backend that its check found to crash."""
    monkeypatch.setenv("TWOFOLD_HOME", str(tmp_path / "home"))
    place = store.folder() / "vulkan"
    place.mkdir(parents=True)
    (place / "libggml-vulkan.so").write_bytes(b"never opened")
    backend = store.find("vulkan")
    verdict = store.Verdict(fingerprint=backend.fingerprint(), reason="crashed", detail="SIGSEGV")
    store.set_verdict(backend, verdict)


@pytest.mark.usefixtures("unfit")
def test_a_backend_is_listed_with_its_reason_and_can_be_switched(run_app: RunApp) -> None:
    async def run() -> None:
        async with run_app() as client:
            (shown,) = (await client.get("/twofold/backends")).json()["backends"]
            assert (shown["name"], shown["state"], shown["reason"]) == (
                "vulkan", "unfit", "crashed",
            )  # fmt: skip
            change = {"name": "vulkan", "enabled": False}
            (shown,) = (await client.post("/twofold/backends", json=change)).json()["backends"]
            assert (shown["state"], shown["reason"]) == ("disabled", None)
            change = {"name": "vulkan", "enabled": True}
            (shown,) = (await client.post("/twofold/backends", json=change)).json()["backends"]
            assert shown["state"] == "unchecked"

    asyncio.run(run())


@pytest.mark.usefixtures("unfit")
def test_one_that_is_not_installed_is_not_found(run_app: RunApp) -> None:
    async def run() -> None:
        async with run_app() as client:
            answer = await client.post("/twofold/backends", json={"name": "x", "enabled": True})
            assert answer.status_code == 404
            assert json.loads(answer.text)["error"]["code"] == "backend.not_found"

    asyncio.run(run())
