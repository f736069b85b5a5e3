"""Qt's own words follow the window's language."""

from __future__ import annotations

import re
from collections.abc import Generator

import pytest
from PySide6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot

from app.i18n import set_language
from app.i18n.qt_words import follow_language

HANGUL = re.compile("[가-힣]")


@pytest.fixture(autouse=True)
def english_again() -> Generator[None]:
    yield
    set_language("en")
    follow_language()


def menu_words(qtbot: QtBot) -> list[str]:
    field = QLineEdit("words")
    qtbot.addWidget(field)
    menu = field.createStandardContextMenu()
    words = [action.text() for action in menu.actions() if action.text()]
    menu.deleteLater()
    return words


def test_a_text_fields_menu_is_korean_in_a_korean_window(qtbot: QtBot) -> None:
    set_language("ko")
    follow_language()
    words = menu_words(qtbot)
    assert len(words) >= 6
    assert all(HANGUL.search(word) for word in words), words


def test_it_is_english_again_in_an_english_one(qtbot: QtBot) -> None:
    set_language("ko")
    follow_language()
    set_language("en")
    follow_language()
    assert not any(HANGUL.search(word) for word in menu_words(qtbot))
