"""The chat page's panels beside the conversation, and where there is no room for both."""

from __future__ import annotations

from pytestqt.qtbot import QtBot

from app.main import Application


def test_a_panel_takes_a_narrow_page_and_gives_it_back(
    still_app: Application, qtbot: QtBot
) -> None:
    window, view = still_app.window, still_app.window.chat.view
    window.resize(1180, 780)
    view.show_panel("settings")
    qtbot.waitUntil(
        lambda: view.settings_panel.isVisible() and view.transcript.parent() is not None
    )
    assert view.path.isVisible()

    window.resize(720, 480)
    qtbot.waitUntil(lambda: not view.path.isVisible())
    assert view.settings_panel.isVisible()
    qtbot.waitUntil(lambda: view.settings_panel.width() == view.width())

    view.show_panel("")
    qtbot.waitUntil(view.path.isVisible)
    view.show_panel("why")
    qtbot.waitUntil(lambda: not view.path.isVisible())
    view.uncover()
    qtbot.waitUntil(view.path.isVisible)

    view.show_panel("why")
    window.resize(1180, 780)
    qtbot.waitUntil(view.path.isVisible)
    assert view.why_panel.isVisible()


def test_opening_another_chat_uncovers_it(still_app: Application, qtbot: QtBot) -> None:
    window, view = still_app.window, still_app.window.chat.view
    window.resize(720, 480)
    view.show_panel("settings")
    qtbot.waitUntil(lambda: not view.path.isVisible())
    window.sidebar.new_asked.emit()
    qtbot.waitUntil(view.path.isVisible)
