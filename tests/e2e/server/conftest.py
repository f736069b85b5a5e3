"""Real engines with real models."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import paths
from engine.api.engine import LoadRequest
from engine.runtime.settings import LoadSettings
from tests.support.running_server import RunningServer, running_server
from tests.support.tiny_models import write_tiny

# Two threads at most: the tests share the machine.
SMALL = LoadSettings(context=2048, threads=2, micro_batch=64)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """The demo model, loaded."""
    model = paths.demo_model()
    assert model.is_file(), "run ./twofold once: it fetches the demo model"
    with running_server(tmp_path_factory.mktemp("home")) as server, server.client() as client:
        client.load(LoadRequest(model=str(model), settings=SMALL))
        yield server


@pytest.fixture(scope="module")
def tiny_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("model") / "tiny.gguf", "llama")


@pytest.fixture
def tiny(tmp_path: Path, tiny_path: Path) -> Iterator[RunningServer]:
    """A tiny model, loaded by a server of the test's own."""
    with running_server(tmp_path / "home") as server, server.client() as client:
        client.load(LoadRequest(model=str(tiny_path), settings=SMALL))
        yield server
