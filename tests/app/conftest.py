"""The window's tests: without a screen, against a scripted engine, leaving nothing running."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Generator
from pathlib import Path

os.environ["QT_QPA_PLATFORM"] = "offscreen"
os.environ["LANG"] = "C.UTF-8"

import pytest
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.engine_client.client import Connection, EngineClient
from app.i18n import set_language
from app.main import Application
from app.preferences import PreferencesFile
from app.screenshots import StillEngine, sample_model
from app.store.chats import ChatStore
from engine.api.engine import EngineState
from tests.support.fake_engine import FakeEngine
from tests.support.watchdog import Watchdog


@pytest.fixture(autouse=True)
def nothing_left_running(qapp: QApplication) -> Generator[None]:
    """Fails a test that leaves a thread or a running timer behind.

    Garbage is collected here alone: an object of Qt's that another thread collects, as the scripted
    engine's threads would, is destroyed on that thread, and the process crashes.
    """
    gc.disable()
    qapp.setStyle("Fusion")
    set_language("en")
    threads = set(threading.enumerate())
    timers = {id(timer) for timer in running_timers()}
    yield
    try:
        for _ in range(3):
            qapp.processEvents()
            qapp.sendPostedEvents(None, 52)  # deferred deletions
        left = [thread.name for thread in set(threading.enumerate()) - threads]
        assert not left, f"threads left running: {left}"
        started = [timer for timer in running_timers() if id(timer) not in timers]
        assert not started, [f"{timer.interval()} ms of {timer.parent()}" for timer in started]
    finally:
        gc.collect()
        gc.enable()


def running_timers() -> list[QTimer]:
    found: list[QTimer] = []
    for thing in gc.get_objects():
        if isinstance(thing, QTimer):
            try:
                if thing.isActive():
                    found.append(thing)
            except RuntimeError:
                continue  # its Qt object is gone
    return found


@pytest.fixture
def fake() -> Generator[FakeEngine]:
    with FakeEngine() as engine:
        yield engine


MakeApp = Callable[[], Application]


@pytest.fixture
def make_app(fake: FakeEngine, tmp_path: Path, qtbot: QtBot) -> Generator[MakeApp]:
    """Starts the window with the scripted engine; each call is another start with the same data."""
    started: list[Application] = []

    def make() -> Application:
        preferences = PreferencesFile(tmp_path / "window.json")
        preferences.values.language = "en"
        preferences.values.theme = "light"
        preferences.save()
        application = Application(
            data=tmp_path,
            config=tmp_path,
            make_engine=lambda: EngineClient(fake.command),
        )
        started.append(application)
        application.start()
        return application

    yield make
    for application in started:
        application.window.close()
        application.close()
        application.window.deleteLater()
        application.deleteLater()
    qtbot.wait(10)


@pytest.fixture
def ready_app(make_app: MakeApp, fake: FakeEngine, qtbot: QtBot) -> Application:
    """The window with a model that is loaded."""
    fake.be_ready()
    application = make_app()
    qtbot.waitUntil(lambda: application.engine.state.status == "ready", timeout=10_000)
    return application


@pytest.fixture
def still_app(tmp_path: Path, qtbot: QtBot) -> Generator[Application]:
    """The window beside an engine that stands still, with a model in it."""
    application = Application(data=tmp_path, config=tmp_path, make_engine=StillEngine)
    application.start()
    engine = application.engine
    assert isinstance(engine, StillEngine)
    engine.put(Connection.CONNECTED, EngineState(status="ready", model=sample_model()))
    application.window.resize(1180, 780)
    yield application
    application.window.close()
    application.close()
    application.window.deleteLater()
    application.deleteLater()
    qtbot.wait(10)


@pytest.fixture
def store(tmp_path: Path) -> Generator[ChatStore]:
    """The chats of the window that `make_app` starts, from another connection."""
    opened = ChatStore(tmp_path / "chats.db", alive=lambda _: True)
    yield opened
    opened.close()


@pytest.fixture
def watchdog(qtbot: QtBot) -> Generator[Watchdog]:
    del qtbot  # a timer needs the application
    dog = Watchdog()
    yield dog
    dog.stop()
