"""Models that open in the background do not hold up the end of the server."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from engine.server.errors import Stopping
from engine.server.lazy_models import LazyModels
from engine.settings_store import SettingsStore


class SlowModels:
    """What takes its time to open."""

    def __init__(self, _store: Any) -> None:
        self.runner = self
        self.started = self.closed = False
        made.append(self)
        opening.set()
        release.wait(20)

    def start(self) -> None:
        self.started = True

    def close(self) -> None:
        self.closed = True


made: list[SlowModels] = []
opening, release = threading.Event(), threading.Event()


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LazyModels:
    made.clear()
    opening.clear()
    release.clear()
    module = ModuleType("engine.downloads.service")
    monkeypatch.setattr(module, "Models", SlowModels, raising=False)
    monkeypatch.setitem(sys.modules, "engine.downloads.service", module)
    return LazyModels(SettingsStore(file=tmp_path / "settings.toml", environment={}, flags={}))


def test_closing_does_not_wait_for_an_opening(models: LazyModels) -> None:
    refused: list[BaseException] = []

    def get() -> None:
        try:
            models.get()
        except Stopping as error:
            refused.append(error)

    thread = threading.Thread(target=get)
    thread.start()
    assert opening.wait(20)
    started = time.monotonic()
    models.close()
    assert time.monotonic() - started < 5, "it waited for the opening"
    release.set()
    thread.join(20)
    assert refused
    [one] = made
    assert (one.started, one.closed) == (False, True)


def test_they_are_opened_once_and_closed_with_the_server(models: LazyModels) -> None:
    release.set()
    first = models.get()
    assert models.get() is first
    models.close()
    [one] = made
    assert (one.started, one.closed) == (True, True)
    with pytest.raises(Stopping):
        models.get()
