"""Every control of every page and state, worked by keyboard alone, with something to see for it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QEvent, QObject, Qt, QThread
from PySide6.QtGui import QAccessible, QDesktopServices
from PySide6.QtWidgets import (
    QApplication,
    QFileDialog,
    QMainWindow,
    QPushButton,
    QScrollArea,
    QWidget,
)
from pytestqt.qtbot import QtBot
from shiboken6 import Shiboken

from app.chat.sidebar_view import SidebarView
from app.engine_client.http import Http
from app.main import Application
from app.sample_machine import StillHttp
from app.screenshots import SCENES, StillEngine, staged
from app.theme.theme import theme
from tests.support import keyboard as keys
from tests.support.keyboard import EFFECT_MS, Key, Keyboard

# The platform without a screen says so of every menu.
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support", extend=True)

Calls = list[str]

SETTLE_MS = 30


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """What was asked of the world outside the window: the engine, files, the browser."""
    made: Calls = []

    def record(owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def recorded(self: Any, *arguments: Any, **named: Any) -> Any:
            if name != "stream" or not str(arguments[0]).endswith("/events"):
                made.append(name)  # the window listens to events by itself
            return real(self, *arguments, **named)

        monkeypatch.setattr(owner, name, recorded)

    for name in ("get", "post", "fetch"):
        record(StillHttp, name)
    for name in ("put", "stream"):
        record(Http, name)
    record(StillEngine, "start")
    nothing: dict[str, Any] = {
        "getOpenFileName": ("", ""), "getOpenFileNames": ([], ""), "getSaveFileName": ("", ""),
        "getExistingDirectory": "",
    }  # fmt: skip
    for name, answer in nothing.items():

        def asked(*_: Any, name: str = name, answer: Any = answer, **__: Any) -> Any:
            made.append(name)
            return answer

        monkeypatch.setattr(QFileDialog, name, asked)

    def opened(address: Any) -> bool:
        made.append(f"open {address.toString()}")
        return True

    monkeypatch.setattr(QDesktopServices, "openUrl", opened)
    return made


class Windows(QObject):
    """Every window that was shown, but pop-ups."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[str] = []

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Show and isinstance(watched, QWidget):
            popup = watched.windowFlags() & Qt.WindowType.Popup == Qt.WindowType.Popup
            if watched.isWindow() and not popup and not isinstance(watched, QMainWindow):
                self.shown.append(f"{type(watched).__name__} {watched.accessibleName()}")
        return False


@pytest.fixture(autouse=True)
def no_window_flashes(qapp: QApplication) -> Generator[None]:
    """A part of a page that is shown too early is a window for a moment, and takes the focus."""
    windows = Windows()
    qapp.installEventFilter(windows)
    yield
    qapp.removeEventFilter(windows)
    assert not windows.shown, windows.shown


# While a menu is open all keys are its own.
WALKED = [name for name in SCENES if not name.startswith("menu-")]
MakeStage = Callable[[str], Application]


@pytest.fixture
def make_stage(tmp_path: Path, qtbot: QtBot) -> Generator[MakeStage]:
    """Each call is the scene anew; the one before is over."""
    with ExitStack() as running:

        def make(name: str) -> Application:
            running.close()
            qtbot.wait(10)
            folder = tmp_path / str(len(list(tmp_path.iterdir())))
            folder.mkdir()
            return running.enter_context(staged(folder, name))

        yield make
    qtbot.wait(10)


def in_sidebar(widget: QWidget) -> bool:
    return any(isinstance(parent, SidebarView) for parent in keys.parents(widget))


def found_in(stage: Application, *, sidebar: bool) -> dict[Key, QWidget]:
    window = stage.window
    return keys.keyed(
        [
            widget
            for widget in keys.controls(window)
            if widget.isEnabled() and (sidebar or not in_sidebar(widget))
        ]
    )


@pytest.mark.parametrize("scene", WALKED)
def test_tab_goes_to_every_control_where_it_can_be_seen_in_reading_order(
    make_stage: MakeStage, scene: str
) -> None:
    stage = make_stage(scene)
    window = stage.window
    found = found_in(stage, sidebar=True)
    for key, widget in found.items():
        told = QAccessible.queryAccessibleInterface(widget)
        assert told.text(QAccessible.Text.Name).strip(), f"no name: {keys.about(key)}"
        assert told.role() != QAccessible.Role.NoRole, f"no role: {keys.about(key)}"
    keyboard = Keyboard(window)
    places = {key: keys.address(widget) for key, widget in found.items()}
    choices = {key for key, widget in found.items() if one_of_choices(widget)}
    order, reached = keyboard.tour(window.sidebar.view.new_chat)
    missing = [
        keys.about(key)
        for key, place in places.items()
        if place not in reached and key not in choices and not has_gone(found[key])
    ]
    assert not missing, missing
    jumps = [
        f"{earlier.name} before {later.name}"
        for number, earlier in enumerate(order)
        for later in order[number + 1 :]
        if not earlier.is_before(later)
    ]
    assert not jumps, jumps


def has_gone(widget: QWidget) -> bool:
    """Out of sight since, as the way to a transcript's end is once that is in view."""
    return Shiboken.isValid(widget) and not widget.isVisible()


def one_of_choices(widget: QWidget) -> bool:
    """A group of choices is one stop: the arrow keys go on from there."""
    return isinstance(widget, QPushButton) and keys.is_choice(widget) and not widget.isChecked()


@pytest.mark.parametrize("scene", WALKED)
def test_every_control_works_by_keyboard(
    make_stage: MakeStage, calls: Calls, scene: str, qtbot: QtBot
) -> None:
    sidebar = scene in ("chat-answer", "chat-search")
    waiting: list[tuple[Key, tuple[str, ...]]] | None = None
    failed: list[str] = []
    while waiting is None or waiting:
        stage = make_stage(scene)
        window = stage.window
        keyboard = Keyboard(window)
        found = found_in(stage, sidebar=sidebar)
        if waiting is None:
            waiting = [(key, ()) for key in found]
        await_all(stage, {key for key, _ in waiting}, sidebar, qtbot)
        while waiting:
            found = found_in(stage, sidebar=sidebar)
            changed = stage.window is not window or not window.isVisible()
            if changed or any(key not in found for key, _ in waiting):
                break  # the rest is there again at another start
            key, path = waiting.pop(0)
            problem, more = one_thing(stage, keyboard, found[key], path, calls, qtbot)
            waiting[:0] = [(key, words) for words in more]
            reason = NOTHING_TO_DO.get((scene, key[1]))
            if problem and not (reason is not None and reason(stage)):
                failed.append(f"{problem}: {keys.about(key)} {' > '.join(path)}")
    assert not failed, failed


# Controls of a scene that have nothing to do there, and how to see that.
NOTHING_TO_DO: dict[tuple[str, str], Callable[[Application], bool]] = {
    # The scene shows a prompt that nobody reads: there is nothing to stop.
    ("chat-reading", "Stop"): lambda stage: stage.window.chat.writer is None,
}


def await_all(stage: Application, wanted: set[Key], sidebar: bool, qtbot: QtBot) -> None:
    def lost() -> list[str]:
        there = found_in(stage, sidebar=sidebar)
        return [keys.about(key) for key in wanted if key not in there]

    qtbot.waitUntil(lambda: not lost(), timeout=5000)


def one_thing(
    stage: Application,
    keyboard: Keyboard,
    widget: QWidget,
    path: tuple[str, ...],
    calls: Calls,
    qtbot: QtBot,
) -> tuple[str, list[tuple[str, ...]]]:
    """Works one control, or an entry of the menu that it opens. Gives what is wrong, and the
    entries of a menu that has opened."""
    window = stage.window
    page = window.page
    QApplication.clipboard().setText("before")
    keyboard.go_to(widget)
    if QApplication.focusWidget() not in (widget, widget.focusProxy()):
        return "cannot have the focus", []
    before = keys.seen(window), list(calls)
    answered = keys.work(keyboard, widget)
    more: list[tuple[str, ...]] = []
    menu = keys.open_menu()
    if menu is not None and not path:
        more = [(entry.text(),) for entry in keys.entries(menu)]
    elif menu is not None:
        below = keys.choose(keyboard, menu, path)
        more = [(*path, words) for words in below or ()]
    elif path:
        return "no menu", []
    if answered is None:
        answered = happened(stage, window, before, calls)
    # A setting that the engine refuses has its old value again: it was asked all the same.
    if not answered and calls == before[1]:
        return "nothing happens", more
    while QApplication.activePopupWidget() is not None:
        keyboard.press(Qt.Key.Key_Escape)
    if menu is not None and not path and QApplication.focusWidget() is not widget:
        return "the focus does not come back from its menu", more
    if stage.window is window and window.isVisible() and window.page != page:
        window.show_page(page)
    qtbot.wait(SETTLE_MS)
    return "", more


def happened(
    stage: Application, window: QMainWindow, before: tuple[object, Calls], calls: Calls
) -> bool:
    for _ in range(EFFECT_MS // 10):
        if stage.window is not window or (keys.seen(window), calls) != before:
            return True
        QApplication.processEvents()
        QThread.msleep(10)
    return False


def test_a_control_that_does_nothing_is_found_out(
    make_stage: MakeStage, calls: Calls, qtbot: QtBot
) -> None:
    """The proof of the proof."""
    stage = make_stage("chat-ready")
    dead = QPushButton("Dead", stage.window.chat.view)
    dead.show()
    keyboard = Keyboard(stage.window)
    assert one_thing(stage, keyboard, dead, (), calls, qtbot)[0] == "nothing happens"


@pytest.mark.parametrize("name", ["why", "settings"])
def test_escape_leaves_a_panel_and_goes_back_to_its_button(
    make_stage: MakeStage, name: str
) -> None:
    stage = make_stage("chat-answer")
    keyboard, chat = Keyboard(stage.window), stage.window.chat.view
    opener = chat.why if name == "why" else chat.settings
    opener.setFocus()
    keyboard.press(Qt.Key.Key_Space)
    panel = chat.why_panel if name == "why" else chat.settings_panel
    assert panel.isVisible()
    close = next(one for one in keys.controls(stage.window) if panel.isAncestorOf(one))
    close.setFocus()
    keyboard.press(Qt.Key.Key_Escape)
    assert not panel.isVisible() and not opener.isChecked()
    assert opener.hasFocus()


def test_keys_scroll_a_panel_that_does_not_fit(make_stage: MakeStage, qtbot: QtBot) -> None:
    window = make_stage("chat-why").window
    theme().apply(mode="light", scale=2.0)
    try:
        window.resize(window.minimumSize())
        area = window.chat.view.why_panel.findChild(QScrollArea)
        assert isinstance(area, QScrollArea)
        bar = area.verticalScrollBar()
        qtbot.waitUntil(lambda: bar.maximum() > 0)
        keyboard = Keyboard(window)
        _, reached = keyboard.tour(window.sidebar.view.new_chat)
        assert keys.address(area) in reached
        area.setFocus()
        keyboard.press(Qt.Key.Key_PageDown)
        assert bar.value() > 0
    finally:
        theme().apply(mode="light", scale=1.0)
