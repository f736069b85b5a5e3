"""A message at the window's foot hides nothing that somebody may want to press."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QRect
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from app.main import Application
from app.shell.pages import PAGES
from app.shell.toast import Toast
from tests.app.chat.test_responsiveness import fill_chat
from tests.support.keyboard import controls


def place(widget: QWidget, window: QWidget) -> QRect:
    """What of it is on the screen."""
    seen = widget.visibleRegion().boundingRect()
    return seen.translated(widget.mapTo(window, QPoint()))


@pytest.mark.parametrize("page", [page.id for page in PAGES])
def test_a_message_covers_nothing_that_can_be_pressed(
    still_app: Application, tmp_path: Path, page: str, qtbot: QtBot
) -> None:
    window = still_app.window
    window.chat.open_chat(fill_chat(tmp_path / "chats.db", 12))
    window.show_page(page)
    qtbot.wait(300)
    toast = window.findChild(Toast)
    assert isinstance(toast, Toast)
    window.notify("“A chat with a rather long name” was deleted.", "Undo", lambda: None)
    qtbot.waitUntil(toast.isVisible)
    qtbot.wait(100)
    shown = place(toast, window)
    assert shown.height() > 20 and window.rect().contains(shown)
    others = [widget for widget in controls(window) if not toast.isAncestorOf(widget)]
    assert len(others) > 8
    for widget in others:
        assert not shown.intersects(place(widget, window)), widget
    window.resize(720, 480)
    qtbot.wait(100)
    for widget in controls(window):
        if not toast.isAncestorOf(widget):
            assert not place(toast, window).intersects(place(widget, window)), widget


def test_a_message_stays_while_the_keyboard_is_at_it(
    still_app: Application, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.shell.toast.SHOWN_MS", 50)
    window = still_app.window
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    toast = window.findChild(Toast)
    assert isinstance(toast, Toast)
    window.notify("“A chat” was deleted.", "Undo", lambda: None)
    undo = next(one for one in controls(window) if one.accessibleName() == "Undo")
    undo.setFocus()
    qtbot.wait(200)
    assert toast.isVisible()
    window.chat.composer.view.text.setFocus()
    qtbot.waitUntil(lambda: not toast.isVisible())
