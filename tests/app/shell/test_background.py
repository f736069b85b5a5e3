"""Work off the window's thread: what comes of it comes back, and it ends with the window."""

from __future__ import annotations

import threading

import pytest
from pytestqt.qtbot import QtBot

from app.shell.background import Background


def test_results_and_errors_come_back_on_the_windows_thread(qtbot: QtBot) -> None:
    background = Background()
    came: list[tuple[object, bool]] = []

    def here(what: object) -> None:
        came.append((what, threading.current_thread() is threading.main_thread()))

    def fails() -> None:
        raise ValueError("no")

    background.run(lambda: threading.current_thread() is threading.main_thread(), here)
    background.run(fails, here, here)
    qtbot.waitUntil(lambda: len(came) == 2)
    background.close()
    assert all(on_main for _, on_main in came)
    whats = [what for what, _ in came]
    assert False in whats and any(isinstance(what, ValueError) for what in whats)


def test_after_the_end_nothing_is_begun_and_nothing_delivered(qtbot: QtBot) -> None:
    background = Background()
    began = threading.Event()
    came: list[object] = []

    def work() -> str:
        began.set()
        threading.Event().wait(0.1)
        return "late"

    background.run(work, came.append)
    assert began.wait(5)
    background.close()
    background.run(lambda: pytest.fail("begun"), came.append)
    background.deliver(lambda: came.append("delivered"))
    qtbot.wait(50)
    assert came == []
