"""The window with the real engine and the demo model: ask, crash, go on, start again."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

os.environ["QT_QPA_PLATFORM"] = "offscreen"

import psutil
import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.chat.chat_controller import ChatController
from app.engine_client.client import Connection
from app.i18n import set_language
from app.main import Application
from app.store.records import ChatSettings
from engine.paths import demo_model

WAIT_MS = 120_000


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_ask_kill_the_engine_ask_again_and_find_everything_after_a_restart(
    qapp: QApplication, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert demo_model().is_file(), "the set-up puts the demo model there"
    demo = demo_model()
    monkeypatch.setenv("TWOFOLD_HOME", str(tmp_path / "home"))
    qapp.setStyle("Fusion")

    first = Application(data=tmp_path, config=tmp_path)
    set_language("en")
    first.start()
    assert first.window.isVisible()
    qtbot.waitUntil(lambda: first.engine.connection is Connection.CONNECTED, timeout=WAIT_MS)
    first.loader.load(demo)
    qtbot.waitUntil(lambda: first.engine.state.status == "ready", timeout=WAIT_MS)
    chat = first.window.chat
    settings = ChatSettings(sampling={"temperature": 0.0, "max_tokens": 24})
    chat.view.settings_panel.changed.emit(settings)

    ask(qtbot, chat, "What is the capital of France?")
    answer = chat.messages[1]
    assert answer.status == "done" and answer.content
    assert answer.report is not None
    assert answer.report["path"] == "decoder" and answer.report["ttft_s"] > 0
    assert len(answer.report["answer_tokens"]) <= 24

    chat.view.settings_panel.changed.emit(ChatSettings(sampling={"temperature": 0.0}))
    send(chat, "Write a long story.")
    qtbot.waitUntil(lambda: bool(chat.writer and chat.writer.has_content), timeout=WAIT_MS)
    time.sleep(0.2)
    engine = first.engine.pid
    os.kill(engine, signal.SIGKILL)
    qtbot.waitUntil(lambda: chat.writer is None, timeout=10_000)
    qtbot.waitUntil(lambda: chat.messages[-1].status == "failed", timeout=10_000)
    assert chat.messages[-1].content, "what was written before the crash is kept"

    first.loader.restart()
    qtbot.waitUntil(lambda: first.engine.state.status == "ready", timeout=WAIT_MS)
    chat.view.settings_panel.changed.emit(settings)
    chat.regenerate(chat.messages[-1].id)
    qtbot.waitUntil(lambda: chat.messages[-1].status == "done", timeout=WAIT_MS)
    stored = [(message.role, message.content) for message in chat.messages]
    second_engine = first.engine.pid
    first.window.close()
    first.window.deleteLater()
    for pid in (engine, second_engine):
        assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie"

    second = Application(data=tmp_path, config=tmp_path)
    second.start()
    sidebar = second.window.sidebar
    qtbot.waitUntil(lambda: sidebar.model.rowCount() > 1, timeout=10_000)
    sidebar.view.list.opened.emit(sidebar.model.index(1))
    qtbot.waitUntil(lambda: bool(second.window.chat.messages), timeout=10_000)
    again = [(message.role, message.content) for message in second.window.chat.messages]
    assert again == stored
    second.window.close()
    second.window.deleteLater()


def send(chat: ChatController, text: str) -> None:
    chat.composer.view.text.setPlainText(text)
    chat.composer.view.sent.emit()


def ask(qtbot: QtBot, chat: ChatController, text: str) -> None:
    send(chat, text)
    qtbot.waitUntil(lambda: chat.writer is not None, timeout=10_000)
    qtbot.waitUntil(
        lambda: chat.writer is None and chat.messages[-1].status == "done", timeout=WAIT_MS
    )
