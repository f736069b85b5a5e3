"""Every shortcut is on the page about them, and does what that page says."""

from __future__ import annotations

from typing import Any

import pytest
from PySide6.QtCore import QKeyCombination, Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QApplication, QFileDialog, QLabel, QLineEdit
from pytestqt.qtbot import QtBot

from app.i18n import tr
from app.main import Application
from app.shell.pages import PAGES
from app.shell.shortcuts import SHORTCUTS
from app.shell.shortcuts_page import ShortcutsPage
from tests.app.chat.test_chat import answered, ask
from tests.support.fake_engine import FakeEngine, WaitForStop
from tests.support.keyboard import Keyboard, choose, open_menu

# The platform without a screen says so of every menu.
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support", extend=True)

KEYS = {item.id: item.keys for item in SHORTCUTS}
PAGE_KEYS = {page.id: page.shortcut for page in PAGES if page.shortcut}


def test_the_page_lists_the_shortcuts_that_there_are(still_app: Application) -> None:
    window = still_app.window
    window.show_page("shortcuts")
    made = [shortcut.key().toString() for shortcut in window.findChildren(QShortcut)]
    everywhere = [item.keys for item in SHORTCUTS if item.everywhere]
    assert sorted(made) == sorted([*everywhere, *PAGE_KEYS.values()])
    assert len(set(KEYS.values()) | set(PAGE_KEYS.values())) == len(KEYS) + len(PAGE_KEYS)
    page = window.findChild(ShortcutsPage)
    assert isinstance(page, ShortcutsPage)
    shown = {label.text() for label in page.findChildren(QLabel)}
    wanted = {tr(f"shortcuts.{name}") for name in KEYS}
    wanted |= {tr("shortcuts.page", page=tr(f"pages.{name}")) for name in PAGE_KEYS}
    wanted |= {QKeySequence(keys).toString() for keys in (*KEYS.values(), *PAGE_KEYS.values())}
    assert shown == wanted | {tr("pages.shortcuts")}


class Presses:
    """Presses shortcuts by name, and remembers which."""

    def __init__(self, application: Application) -> None:
        self.keyboard = Keyboard(application.window)
        self.left = {item.id for item in SHORTCUTS}

    def __call__(self, name: str) -> None:
        self.left.discard(name)
        self.keys(KEYS[name])

    def keys(self, written: str) -> None:
        sequence: Any = QKeySequence(written)
        first = sequence[0]
        assert isinstance(first, QKeyCombination)
        self.keyboard.press(first.key(), first.keyboardModifiers())


def test_each_shortcut_does_what_it_says(
    ready_app: Application, fake: FakeEngine, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, chat = ready_app.window, ready_app.window.chat
    view, text, values = chat.view, chat.composer.view.text, ready_app.preferences.values
    fake.script = lambda _: ["line\n\n" * 60]
    ask(qtbot, chat, "Question")
    press = Presses(ready_app)

    press("copy_answer")
    assert QApplication.clipboard().text() == chat.messages[-1].content
    press("search")
    assert window.sidebar.view.search.hasFocus()
    press("write")
    assert text.hasFocus()
    bar = chat.transcript.view.verticalScrollBar()
    qtbot.waitUntil(lambda: bar.maximum() > 0 and bar.value() == bar.maximum())
    press("scroll")
    assert bar.value() < bar.maximum()

    fake.script = lambda _: ["Begun", WaitForStop()]
    press("regenerate")
    qtbot.waitUntil(lambda: chat.writer is not None)
    press("stop")
    qtbot.waitUntil(lambda: answered(chat), timeout=10_000)

    asked: list[str] = []

    def choose_files(*_: Any, **__: Any) -> tuple[list[str], str]:
        asked.append("files")
        return [], ""

    monkeypatch.setattr(QFileDialog, "getOpenFileNames", choose_files)
    press("attach")
    assert asked == ["files"]
    for name, panel in (("chat_settings", view.settings_panel), ("why", view.why_panel)):
        press(name)
        assert panel.isVisible()
        press(name)
        assert not panel.isVisible()
    press("larger")
    assert values.font_scale == 1.1
    press("smaller")
    assert values.font_scale == 1.0
    press("sidebar")
    assert not window.sidebar.view.isVisible()
    press("sidebar")
    assert window.sidebar.view.isVisible()
    for page, keys in PAGE_KEYS.items():
        press.keys(keys)
        assert window.page == page

    press("write")
    assert window.page == "chat" and text.hasFocus()
    text.clear()
    press("new_line")
    assert text.toPlainText() == "\n"
    text.setPlainText("Another")
    fake.script = lambda _: ["Well."]
    before = len(chat.messages)
    press("send")
    qtbot.waitUntil(lambda: len(chat.messages) > before and answered(chat), timeout=10_000)

    chats = window.sidebar.view.list
    qtbot.waitUntil(lambda: chats.currentIndex().isValid())
    chats.setFocus()
    press("rename")
    field = chats.viewport().findChild(QLineEdit)
    assert isinstance(field, QLineEdit) and field.isVisible()
    press.keyboard.press(Qt.Key.Key_Escape)
    for keys in (KEYS["menu"], "Menu"):
        chats.setFocus()
        press.keys(keys)
        menu = open_menu()
        assert menu is not None
        if keys == "Menu":
            rows = chats.model().rowCount()
            choose(press.keyboard, menu, [tr("sidebar.duplicate")])
            qtbot.waitUntil(lambda rows=rows: chats.model().rowCount() == rows + 1)
        else:
            press.keyboard.press(Qt.Key.Key_Escape)
    press.left.discard("menu")
    chats.setFocus()
    rows = chats.model().rowCount()
    press("delete")
    qtbot.waitUntil(lambda: chats.model().rowCount() == rows - 1)

    press("new_chat")
    assert chat.chat is None
    press("quit")
    assert not window.isVisible()
    assert not press.left
