"""The panel that says why a prompt was read the way it was."""

from __future__ import annotations

from typing import Any

from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from app.chat.panels import WhyPanel
from app.i18n import set_language

OLD: dict[str, Any] = {
    "path": "odp",
    "reason": "you chose odp",
    "stop_reason": "eos",
    "new_tokens": 100,
    "cached_tokens": 0,
    "answer_tokens": [1],
}
REPORT = OLD | {
    "reason": "You chose the path odp.",
    "reason_code": "route.chosen",
    "reason_data": {"path": "odp"},
}


def texts(panel: WhyPanel) -> set[str]:
    return {label.text() for label in panel.findChildren(QLabel)}


def test_the_reason_is_said_in_the_windows_language(qtbot: QtBot) -> None:
    set_language("ko")
    panel = WhyPanel()
    qtbot.addWidget(panel)
    panel.show_report(REPORT)
    assert "이 경로(odp)를 직접 골랐습니다." in texts(panel)
    assert REPORT["reason"] not in texts(panel)


def test_a_message_of_an_older_version_keeps_its_sentence(qtbot: QtBot) -> None:
    set_language("ko")
    panel = WhyPanel()
    qtbot.addWidget(panel)
    panel.show_report(OLD)
    assert "you chose odp" in texts(panel)
