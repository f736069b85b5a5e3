"""Every page, full of what it shows, for somebody who has a keyboard and a screen reader."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QWidget
from pytestqt.qtbot import QtBot

from app.main import Application
from app.prefill.prefill_view import PrefillView
from app.settings.settings_view import SettingsView
from app.shell.pages import PAGES
from app.theme.theme import theme
from tests.support.keyboard import controls

MOST_TABS = 400


def open_page(application: Application, page: str, qtbot: QtBot) -> None:
    window = application.window
    window.show_page(page)
    window.activateWindow()
    if page == "settings":
        settings = window.findChild(SettingsView)
        assert isinstance(settings, SettingsView)
        qtbot.waitUntil(lambda: "server.port" in settings.rows and settings.complete)
    if page == "prefill":
        prefill = window.findChild(PrefillView)
        assert isinstance(prefill, PrefillView)
        qtbot.waitUntil(prefill.body.isVisible, timeout=10_000)
    qtbot.wait(300)


def about(widget: QWidget) -> str:
    parents = [type(parent).__name__ for parent in _parents(widget)][:4]
    return f"{type(widget).__name__} “{widget.accessibleName()}” in {' < '.join(parents)}"


def _parents(widget: QWidget) -> Generator[QWidget]:
    parent = widget.parentWidget()
    while parent is not None:
        yield parent
        parent = parent.parentWidget()


@pytest.mark.parametrize("page", [page.id for page in PAGES])
def test_every_control_of_a_page_has_a_name_and_a_role_and_tab_reaches_it(
    still_app: Application, page: str, qtbot: QtBot
) -> None:
    open_page(still_app, page, qtbot)
    found = controls(still_app.window)
    assert len(found) > 8
    for widget in found:
        told = QAccessible.queryAccessibleInterface(widget)
        assert told.text(QAccessible.Text.Name).strip(), f"no name: {about(widget)}"
        assert told.role() != QAccessible.Role.NoRole, f"no role: {about(widget)}"
    wanted = {id(widget) for widget in found if widget.isEnabled()}
    reached: set[int] = set()
    for _ in range(MOST_TABS):
        focus = still_app.window.focusWidget() or still_app.window
        reached.add(id(focus))
        if focus.focusProxy() is not None:
            reached.add(id(focus.focusProxy()))
        QTest.keyClick(focus, Qt.Key.Key_Tab)
    # A group of choices is one stop: the arrow keys go on from there.
    missing = [
        about(widget) for widget in found if id(widget) in wanted - reached and not in_group(widget)
    ]
    assert not missing, missing


def in_group(widget: QWidget) -> bool:
    if not isinstance(widget, QAbstractButton):
        return False
    group = widget.group()
    return group is not None and group.exclusive() and not widget.isChecked()


@pytest.mark.parametrize("page", [page.id for page in PAGES])
@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_no_words_of_a_page_are_wider_than_their_control(
    still_app: Application, page: str, scale: float, qtbot: QtBot
) -> None:
    """At the largest font, too."""
    theme().apply(mode="light", scale=scale)
    try:
        open_page(still_app, page, qtbot)
        narrow: list[str] = []
        for button in still_app.window.findChildren(QAbstractButton):
            if button.isVisible() and button.text() and "…" not in button.text():
                needed = button.fontMetrics().horizontalAdvance(button.text().replace("&", ""))
                if button.width() < needed:
                    narrow.append(f"{needed - button.width()} px: {about(button)}")
        assert not narrow, narrow
    finally:
        theme().apply(mode="light", scale=1.0)
