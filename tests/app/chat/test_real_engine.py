"""The window with the real engine's process and the demo model; the window stays quick."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.engine_client.client import Connection
from app.main import Application
from app.store.records import ChatSettings
from engine.paths import demo_model
from tests.app.chat.test_chat import answered, send
from tests.app.chat.test_responsiveness import LONGEST_MS, TRIES
from tests.support.watchdog import Watchdog

WAIT_MS = 120_000


@pytest.fixture
def application(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> Generator[Application]:
    assert demo_model().is_file(), "the set-up puts the demo model there"
    monkeypatch.setenv("TWOFOLD_CACHE", str(demo_model().parent.parent))
    monkeypatch.setenv("TWOFOLD_HOME", str(tmp_path / "home"))
    made = Application(data=tmp_path, config=tmp_path)
    made.start()
    yield made
    made.window.close()
    made.close()
    made.window.deleteLater()
    made.deleteLater()
    qtbot.wait(10)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_window_stays_quick_while_the_engine_starts_a_model_loads_and_answers(
    application: Application, qtbot: QtBot, watchdog: Watchdog
) -> None:
    engine = application.engine
    qtbot.waitUntil(lambda: engine.connection is Connection.CONNECTED, timeout=WAIT_MS)
    loading: list[float] = []
    for _ in range(TRIES):
        qtbot.wait(100)
        watchdog.start()
        application.loader.load(demo_model())
        qtbot.waitUntil(lambda: engine.state.status == "ready", timeout=WAIT_MS)
        loading.append(watchdog.stop())
        if loading[-1] < LONGEST_MS:
            break
        engine.unload()
        qtbot.waitUntil(lambda: engine.state.status == "empty", timeout=WAIT_MS)
    assert min(loading) < LONGEST_MS, loading

    chat = application.window.chat
    application.window.show_page("chat")
    settings = ChatSettings(sampling={"temperature": 0.0, "max_tokens": 24})
    chat.view.settings_panel.changed.emit(settings)
    answering: list[float] = []
    for _ in range(TRIES):
        watchdog.start()
        before = len(chat.messages)
        send(chat, "What is the capital of France?")
        qtbot.waitUntil(
            lambda before=before: len(chat.messages) > before and answered(chat), timeout=WAIT_MS
        )
        answering.append(watchdog.stop())
        if answering[-1] < LONGEST_MS:
            break
    assert min(answering) < LONGEST_MS, answering
    answer = chat.messages[1]
    assert answer.status == "done" and answer.content
    report = answer.report
    assert report is not None and report["path"] and report["ttft_s"] > 0, report
    assert 1 <= len(report["answer_tokens"]) <= 24 and report["stop_reason"] in ("eos", "length")
