"""Another theme, accent, size or language: never a pause, and no trace of the one before."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from PySide6.QtGui import QImage
from pytestqt.qtbot import QtBot
from shiboken6 import isValid

from app.main import Application
from app.prefill.prefill_view import PrefillView
from app.settings.settings_view import SettingsView
from app.shell.pages import PAGES
from app.theme.theme import theme
from tests.app.chat.test_responsiveness import LONGEST_MS, TRIES, fill_chat
from tests.support.watchdog import Watchdog


@pytest.fixture(autouse=True)
def first_look_again() -> Generator[None]:
    yield
    theme().apply(mode="light", scale=1.0, accent="indigo")


def open_all(application: Application, qtbot: QtBot) -> None:
    for page in PAGES:
        application.window.show_page(page.id)
        qtbot.wait(100)
    settings = application.window.findChild(SettingsView)
    assert isinstance(settings, SettingsView)
    qtbot.waitUntil(lambda: settings.complete and len(settings.rows) > 20)


def picture(application: Application, qtbot: QtBot) -> QImage:
    """The window once nothing in it changes any more."""
    theme().settle()
    plot = application.window.findChild(PrefillView)
    if plot is not None and plot.isVisible():
        qtbot.waitUntil(lambda: len(plot.plot_place.children()) > 1, timeout=20_000)
    settings = application.window.findChild(SettingsView)
    if settings is not None and settings.isVisible():
        qtbot.waitUntil(lambda: settings.complete and len(settings.rows) > 20)
    last, now = QImage(), application.window.grab().toImage()
    while last != now:
        qtbot.wait(200)
        application.window.setFocus()  # pages put it where they begin
        last, now = now, application.window.grab().toImage()
    return now


@pytest.mark.slow
@pytest.mark.parametrize("page", ["chat", "settings", "prefill", "models"])
def test_another_look_never_blocks_the_window(
    still_app: Application, tmp_path: Path, page: str, qtbot: QtBot, watchdog: Watchdog
) -> None:
    """With every page open and a long chat."""
    still_app.window.chat.open_chat(fill_chat(tmp_path / "chats.db", 60))
    open_all(still_app, qtbot)
    still_app.window.show_page(page)
    qtbot.wait(500)
    looks: list[Callable[[], None]] = [
        lambda: theme().apply(mode="dark"),
        lambda: theme().apply(mode="dark", accent="rose"),
        lambda: theme().apply(mode="dark", scale=1.3),
        lambda: theme().apply(mode="light", scale=1.0, accent="indigo"),
    ]
    for change in looks:
        assert _longest(change, 400, qtbot, watchdog) < LONGEST_MS


@pytest.mark.slow
def test_pages_that_open_and_another_language_never_block_the_window(
    still_app: Application, tmp_path: Path, qtbot: QtBot, watchdog: Watchdog
) -> None:
    """Each language makes a new window, whose pages open for the first time."""
    chat = fill_chat(tmp_path / "chats.db", 60)
    still_app.window.chat.open_chat(chat)
    values = still_app.preferences.values

    def another_language() -> None:
        values.language = "ko" if values.language != "ko" else "en"
        still_app.remake_window()

    slowest: dict[str, list[float]] = {}
    for _ in range(2 * TRIES):  # so many pages need a quiet moment each
        for entry in (*PAGES, *PAGES):
            watchdog.start()
            still_app.window.show_page(entry.id)
            qtbot.wait(250)
            slowest.setdefault(entry.id, []).append(watchdog.stop())
        settings = still_app.window.findChild(SettingsView)
        assert isinstance(settings, SettingsView)
        still_app.window.show_page("settings")
        watchdog.start()
        for typed in ("port", "", "theme"):
            settings.search.setText(typed)
            qtbot.wait(50)
        slowest.setdefault("search", []).append(watchdog.stop())
        old = still_app.window
        watchdog.start()
        another_language()
        qtbot.waitUntil(lambda old=old: not (isValid(old) and old.isVisible()))
        qtbot.wait(200)
        slowest.setdefault("language", []).append(watchdog.stop())
    assert {what for what, times in slowest.items() if min(times) >= LONGEST_MS} == set(), slowest


@pytest.mark.parametrize("page", [page.id for page in PAGES])
def test_a_page_looks_as_if_it_had_opened_in_the_new_theme(
    still_app: Application, page: str, qtbot: QtBot
) -> None:
    """Whether it was in front or behind when the theme changed."""
    theme().apply(mode="dark", accent="blue")
    still_app.window.show_page(page)
    wanted = picture(still_app, qtbot)
    theme().apply(mode="light", accent="indigo")
    assert picture(still_app, qtbot) != wanted
    still_app.window.show_page("chat")
    theme().apply(mode="dark", accent="rose")
    theme().apply(mode="dark", accent="blue")  # before the other one is everywhere
    still_app.window.show_page(page)
    assert picture(still_app, qtbot) == wanted


def test_what_is_deleted_on_the_way_is_left_out(still_app: Application, qtbot: QtBot) -> None:
    open_all(still_app, qtbot)
    still_app.window.show_page("chat")
    theme().apply(mode="dark")
    still_app.remake_window()
    old = still_app.window
    qtbot.waitUntil(lambda: still_app.window is not old)
    qtbot.wait(300)
    assert theme().is_dark and still_app.window.isVisible()


def _longest(change: Callable[[], None], for_ms: int, qtbot: QtBot, watchdog: Watchdog) -> float:
    times: list[float] = []
    for _ in range(TRIES):
        watchdog.start()
        change()
        qtbot.wait(for_ms)
        times.append(watchdog.stop())
        if times[-1] < LONGEST_MS:
            break
        theme().apply(mode="light", accent="violet")
        qtbot.wait(for_ms)
    return min(times)
