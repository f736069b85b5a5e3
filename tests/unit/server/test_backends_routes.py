"""Backends over HTTP: seen as the last check left them, switched, brought in, checked, removed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from engine.backends import store
from tests.support.backend_file import CRASHES, make_backend_file
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


@pytest.mark.usefixtures("unfit")
def test_a_removed_one_is_gone(run_app: RunApp) -> None:
    async def run() -> None:
        async with run_app() as client:
            answer = await client.post("/twofold/backends/remove", json={"name": "vulkan"})
            assert answer.json() == {"backends": []}
            answer = await client.post("/twofold/backends/check", json={"name": "vulkan"})
            assert answer.json()["error"]["code"] == "backend.not_found"

    asyncio.run(run())
    assert not list(store.folder().glob("*/*"))


def test_one_that_ends_its_check_by_itself_is_installed_and_not_used(
    run_app: RunApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWOFOLD_HOME", str(tmp_path / "home"))
    file = make_backend_file(tmp_path, CRASHES)

    async def run() -> None:
        async with run_app() as client:
            body = {"path": str(file)}
            (shown,) = (await client.post("/twofold/backends/install", json=body)).json()[
                "backends"
            ]
            assert (shown["state"], shown["reason"]) == ("unfit", "crashed")
            verdict = store.find("odd").state.verdict
            assert verdict is not None and "SIGABRT" in verdict.detail
            store.set_enabled("odd", True)  # which forgets what was found
            (shown,) = (await client.post("/twofold/backends/check", json={"name": "odd"})).json()[
                "backends"
            ]
            assert (shown["state"], shown["reason"]) == ("unfit", "crashed")

    asyncio.run(run())


def test_a_file_that_is_no_backend_is_refused(
    run_app: RunApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWOFOLD_HOME", str(tmp_path / "home"))
    (tmp_path / "notes.txt").write_text("not a library", encoding="utf-8")

    async def run() -> None:
        async with run_app() as client:
            for name, code in (
                ("notes.txt", "backend.not_a_library"),
                ("gone", "backend.not_readable"),
            ):
                body = {"path": str(tmp_path / name)}
                answer = await client.post("/twofold/backends/install", json=body)
                assert answer.json()["error"]["code"] == code

    asyncio.run(run())
    assert store.installed() == []
