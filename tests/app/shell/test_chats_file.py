"""What the window says of its chats' file: damaged, held by another program, written by a newer
version."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.main import Application
from app.shell.toast import Toast
from app.store import opening
from app.store.chats import ChatStore
from tests.app.chat.test_chat import ask, send
from tests.app.conftest import MakeApp
from tests.support.fake_engine import FakeEngine


def said(application: Application) -> str:
    toast = application.window.findChild(Toast)
    assert isinstance(toast, Toast)
    return toast.sentence if toast.isVisible() else ""


def test_a_damaged_file_is_moved_aside_its_chats_are_saved_and_that_is_said(
    make_app: MakeApp, fake: FakeEngine, tmp_path: Path, qtbot: QtBot
) -> None:
    path = tmp_path / "chats.db"
    store = ChatStore(path)
    for number in range(300):
        chat = store.create_chat(f"Chat {number}")
        store.add_message(chat, "user", f"message {number} " + "words " * 50, parent=None)
    store.close()
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 8192] = b"\xff" * 8192
    path.write_bytes(data)

    fake.be_ready()
    application = make_app()
    qtbot.waitUntil(lambda: "damaged" in said(application), timeout=20_000)
    (aside,) = tmp_path.glob("chats.damaged-*.db")
    assert aside.name in said(application)
    qtbot.waitUntil(lambda: application.window.sidebar.model.rowCount() > 100)
    qtbot.waitUntil(lambda: application.engine.state.status == "ready", timeout=10_000)
    ask(qtbot, application.window.chat, "Life goes on")


def test_a_file_that_another_program_holds_is_said_and_what_was_typed_is_kept(
    make_app: MakeApp,
    fake: FakeEngine,
    tmp_path: Path,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(opening, "BUSY_S", 0.2)
    fake.be_ready()
    application = make_app()
    qtbot.waitUntil(lambda: application.engine.state.status == "ready", timeout=10_000)
    text = application.window.chat.composer.view.text
    with closing(sqlite3.connect(tmp_path / "chats.db", timeout=20)) as other:
        other.execute("BEGIN EXCLUSIVE")
        send(application.window.chat, "Can this be saved?")
        qtbot.waitUntil(lambda: "Another program holds" in said(application), timeout=10_000)
        qtbot.waitUntil(lambda: text.toPlainText() == "Can this be saved?", timeout=10_000)
        other.rollback()
    ask(qtbot, application.window.chat, text.toPlainText())
    assert application.window.chat.messages[0].content == "Can this be saved?"


def test_a_file_of_a_newer_version_is_left_alone_and_that_is_said(
    make_app: MakeApp, fake: FakeEngine, tmp_path: Path, qtbot: QtBot
) -> None:
    path = tmp_path / "chats.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 99")
    fake.be_ready()
    application = make_app()
    qtbot.waitUntil(lambda: "newer version of Twofold" in said(application), timeout=10_000)
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (99,)
        assert database.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
