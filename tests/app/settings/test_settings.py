"""The settings page: both programs' settings in one list, searched, changed, refused and reset."""

from __future__ import annotations

from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QCheckBox, QComboBox, QLineEdit, QSpinBox
from pytestqt.qtbot import QtBot

from app.i18n import set_language
from app.i18n.catalogue import LANGUAGES
from app.main import Application
from app.preferences import Preferences
from app.settings.entries import engine_entries, window_entries
from app.settings.settings_view import SettingsView
from engine.api.failure import Failure
from engine.api.requests import SettingsAnswer
from engine.settings_store import SettingsStore
from tests.support.fake_engine import FakeEngine


def settings(restart: list[str] | None = None, **values: Any) -> dict[str, Any]:
    infos = [
        info.model_copy(update={"value": values[key], "source": "file"})
        if (key := info.name.replace(".", "__")) in values
        else info
        for info in SettingsStore(environment={}, file=None).infos()
    ]
    return SettingsAnswer(settings=infos, restart=restart or []).model_dump(mode="json")


@pytest.fixture
def page(ready_app: Application, fake: FakeEngine, qtbot: QtBot) -> SettingsView:
    fake.answers["GET /twofold/settings"] = settings()
    ready_app.window.resize(1100, 800)
    ready_app.window.show_page("settings")
    found = ready_app.window.findChild(SettingsView)
    assert isinstance(found, SettingsView)
    qtbot.waitUntil(lambda: "server.port" in found.rows and found.complete)
    return found


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_setting_has_a_title_and_a_hint_in_every_language(language: Any) -> None:
    set_language(language)
    infos = SettingsStore(environment={}).infos()
    entries = [*window_entries(Preferences()), *engine_entries(infos)]
    assert {info.name for info in infos} <= {entry.name for entry in entries}
    for entry in entries:
        assert entry.title and entry.hint
        for choice in entry.choices:
            assert entry.choice_words(choice) != choice, f"{entry.name}: {choice} has no words"


def test_search_leaves_what_has_the_words_and_says_when_nothing_has(
    page: SettingsView, qtbot: QtBot
) -> None:
    page.search.setText("port listen")
    qtbot.waitUntil(lambda: page.complete)
    assert [name for name, row in page.rows.items() if row.isVisible()] == ["server.port"]
    page.search.setText("xyzzy")
    assert not page.nothing.isHidden()
    assert not any(row.isVisible() for row in page.rows.values())
    page.search.clear()
    qtbot.waitUntil(lambda: page.complete)
    assert all(row.isVisible() for row in page.rows.values())


def test_a_number_goes_to_the_engine_and_a_restart_is_asked_for(
    page: SettingsView, fake: FakeEngine, qtbot: QtBot
) -> None:
    fake.answers["PUT /twofold/settings"] = settings(["server.port"], server__port=9000)
    control = page.rows["server.port"].editor.control
    assert isinstance(control, QSpinBox)
    control.setValue(9000)
    qtbot.waitUntil(page.pending.isVisible)
    assert fake.posted[-1] == ("/twofold/settings", {"values": {"server.port": 9000}})
    assert "Port" in page.restart_words.text()
    assert page.rows["server.port"].reset_button.isVisible()


def test_reset_takes_a_setting_out_of_the_file(
    page: SettingsView, fake: FakeEngine, qtbot: QtBot
) -> None:
    fake.answers["PUT /twofold/settings"] = settings(load__slots=4)
    control = page.rows["load.slots"].editor.control
    assert isinstance(control, QSpinBox)
    control.setValue(4)
    qtbot.waitUntil(lambda: page.rows["load.slots"].entry.value == 4)
    fake.answers["PUT /twofold/settings"] = settings()
    page.rows["load.slots"].reset.emit("load.slots")
    qtbot.waitUntil(lambda: page.rows["load.slots"].entry.value == 2)
    assert fake.posted[-1][1] == {"values": {"load.slots": None}}
    assert not page.rows["load.slots"].reset_button.isVisible()


def test_a_refused_value_is_said_below_the_setting_which_keeps_its_own(
    page: SettingsView, fake: FakeEngine, qtbot: QtBot
) -> None:
    problem = Failure(code="settings.bad_value", sentence="That is no address.")
    fake.answers["PUT /twofold/settings"] = problem
    control = page.rows["server.host"].editor.control
    assert isinstance(control, QLineEdit)
    control.setText("not an address")
    control.editingFinished.emit()
    qtbot.waitUntil(lambda: page.rows["server.host"].problem == "That is no address.")
    shown = page.rows["server.host"].editor.control
    assert isinstance(shown, QLineEdit) and shown.text() == "127.0.0.1"


def test_an_optional_number_is_automatic_below_its_least(
    page: SettingsView, fake: FakeEngine, qtbot: QtBot
) -> None:
    control = page.rows["load.threads"].editor.control
    assert isinstance(control, QSpinBox) and control.text() == "Automatic"
    fake.answers["PUT /twofold/settings"] = settings(load__threads=4)
    control.setValue(4)
    qtbot.waitUntil(lambda: page.rows["load.threads"].entry.value == 4)
    again = page.rows["load.threads"].editor.control
    assert isinstance(again, QSpinBox)
    again.setValue(again.minimum())
    qtbot.waitUntil(lambda: fake.posted[-1][1] == {"values": {"load.threads": None}})


def test_a_list_is_sent_as_one(page: SettingsView, fake: FakeEngine, qtbot: QtBot) -> None:
    fake.answers["PUT /twofold/settings"] = settings()
    control = page.rows["server.hosts"].editor.control
    assert isinstance(control, QLineEdit)
    control.setText("desk, desk.local")
    control.editingFinished.emit()
    wanted = {"values": {"server.hosts": ["desk", "desk.local"]}}
    qtbot.waitUntil(lambda: bool(fake.posted) and fake.posted[-1][1] == wanted)


def test_appearance_changes_at_once_and_is_kept(page: SettingsView, ready_app: Application) -> None:
    theme, accent = page.rows["window.theme"].editor, page.rows["window.accent"].editor
    theme.edited.emit("dark")
    accent.edited.emit("blue")
    values = ready_app.preferences.values
    assert (values.theme, values.accent) == ("dark", "blue")
    application = QApplication.instance()
    assert isinstance(application, QApplication)
    assert "#7FB0FF" in application.styleSheet()
    page.rows["window.accent"].reset.emit("window.accent")
    assert ready_app.preferences.values.accent == "indigo"
    page.rows["window.theme"].reset.emit("window.theme")


def test_another_language_makes_the_window_anew(
    page: SettingsView, ready_app: Application, qtbot: QtBot
) -> None:
    old = ready_app.window
    control = page.rows["window.language"].editor.control
    assert isinstance(control, QComboBox)
    control.setCurrentIndex(control.findData("ko"))
    control.activated.emit(control.currentIndex())
    qtbot.waitUntil(lambda: ready_app.window is not old)
    assert ready_app.preferences.values.language == "ko"
    assert ready_app.window.windowTitle() == "Twofold"


def test_every_setting_has_a_name_and_takes_tab_and_space_ticks_a_box(page: SettingsView) -> None:
    for row in page.rows.values():
        control = row.editor.control
        assert control.focusPolicy() & Qt.FocusPolicy.TabFocus
        assert control.accessibleName() and control.accessibleDescription()
    box = page.rows["window.reduce_motion"].editor.control
    assert isinstance(box, QCheckBox)
    box.setFocus()
    QTest.keyClick(box, Qt.Key.Key_Space)
    assert page.rows["window.reduce_motion"].entry.value is True
    page.rows["window.reduce_motion"].reset.emit("window.reduce_motion")


def test_tab_goes_on_from_a_setting_that_was_changed_to_its_reset_and_the_next(
    page: SettingsView, ready_app: Application, qtbot: QtBot
) -> None:
    """The control is made anew; somebody with a keyboard must not notice."""
    window = ready_app.window
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    page.rows["window.accent"].editor.control.setFocus()
    qtbot.keyClick(window.windowHandle(), Qt.Key.Key_Down)
    row = page.rows["window.accent"]
    assert row.entry.changed and row.editor.control.hasFocus()
    qtbot.keyClick(window.windowHandle(), Qt.Key.Key_Tab)
    assert row.reset_button.hasFocus()
    qtbot.keyClick(window.windowHandle(), Qt.Key.Key_Tab)
    assert page.rows["window.font_scale"].editor.control.hasFocus()
    row.reset.emit("window.accent")
