"""What a screen reader is told without being asked: an answer that is finished, and an error."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QAccessibleEvent
from pytestqt.qtbot import QtBot

from app.engine_client.failures import said
from app.i18n import tr
from app.main import Application
from tests.app.chat.test_chat import ask
from tests.support.fake_engine import Drop, FakeEngine, Pause


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The announcements that Qt gets while a screen reader is there."""
    heard: list[str] = []
    real = QAccessible.updateAccessibility

    def update(event: QAccessibleEvent) -> None:
        if isinstance(event, QAccessibleAnnouncementEvent):
            assert event.type() == QAccessible.Event.Announcement
            heard.append(event.message())
        real(event)

    monkeypatch.setattr(QAccessible, "updateAccessibility", update)
    # The platform without a screen has no screen readers either.
    monkeypatch.setattr(QAccessible, "isActive", lambda: True)
    return heard


def test_a_finished_answer_is_announced(
    ready_app: Application, fake: FakeEngine, told: list[str], qtbot: QtBot
) -> None:
    fake.script = lambda _: ["Well."]
    ask(qtbot, ready_app.window.chat, "Question")
    assert told == [tr("chat.answer_done")]


def test_an_error_is_announced_and_not_as_an_answer(
    ready_app: Application, fake: FakeEngine, told: list[str], qtbot: QtBot
) -> None:
    fake.script = lambda _: ["Half", Pause(0.1), Drop()]
    chat = ready_app.window.chat
    ask(qtbot, chat, "Question")
    failure = chat.messages[-1].failure
    assert failure is not None
    assert told == [said(failure["code"], failure["data"], failure["sentence"])]
    assert told[0].strip()
