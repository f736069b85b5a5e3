"""A local hub that HF_ENDPOINT points to, and downloads from it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from tests.support.downloading import Downloading, make_downloading
from tests.support.hub import LocalHub


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Generator[LocalHub]:
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("TWOFOLD_HOME", str(tmp_path / "home"))
    with LocalHub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        yield hub


@pytest.fixture
def make(tmp_path: Path, hub: LocalHub) -> Generator[Callable[..., Downloading]]:
    """Makes the programs of successive processes on one folder; they are closed at the end."""
    del hub
    made: list[Downloading] = []

    def start(folder: Path | None = None, **options: Any) -> Downloading:
        made.append(make_downloading(folder or tmp_path, **options))
        return made[-1]

    yield start
    for one in made:
        one.close()


@pytest.fixture
def downloading(make: Callable[..., Downloading]) -> Downloading:
    return make()
