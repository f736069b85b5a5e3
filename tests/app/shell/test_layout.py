"""Every scene that is drawn, in both languages: nothing is cut off, overlaps or stands outside."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app.i18n import Language
from app.i18n.catalogue import LANGUAGES
from app.screenshots import SCENES, staged
from app.shell.scrolled import scrolled
from app.shell.segments import Segments
from app.shell.widgets import label
from tests.support.layout import faults


# Without a screen a menu can neither come forward nor take the keyboard.
@pytest.mark.qt_log_ignore("This plugin does not support", extend=True)
@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("scene", SCENES)
def test_nothing_is_clipped_or_overlaps(
    scene: str, language: Language, tmp_path: Path, qtbot: QtBot
) -> None:
    with staged(tmp_path, scene, language=language) as application:
        assert faults(application.window) == []
    qtbot.wait(10)


def test_the_warning_before_an_overflow_is_whole_in_the_smallest_window(
    tmp_path: Path, qtbot: QtBot
) -> None:
    with staged(tmp_path, "chat-composer") as application:
        window = application.window
        window.resize(window.minimumSize())
        words = window.chat.composer.view.tokens
        qtbot.waitUntil(lambda: words.height() >= words.heightForWidth(words.width()) > 0)
        assert words.text() and not [
            fault for fault in faults(window) if words.text()[:20] in fault
        ]
    qtbot.wait(10)


@pytest.mark.slow
def test_the_pages_columns_stand_still_whether_they_scroll_or_not(
    tmp_path: Path, qtbot: QtBot
) -> None:
    edges = set[tuple[int, int]]()
    for scene in ("prefill", "prefill-no-model", "models-discover"):
        folder = tmp_path / scene
        folder.mkdir()
        with staged(folder, scene) as application:
            window = application.window
            for switch in window.findChildren(Segments):
                if switch.isVisible():
                    left = switch.mapTo(window, QPoint()).x()
                    edges.add((left, left + switch.width()))
    assert len(edges) == 1, edges
    qtbot.wait(10)


def test_the_check_sees_what_is_clipped_overlaps_or_reaches_out(qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    window.resize(300, 200)
    places = {"clipped words that are long": (0, 0, 40, 20), "over": (30, 5, 60, 30),
              "out": (280, 100, 60, 30)}  # fmt: skip
    for words, place in places.items():
        made = QLabel(words, window)
        made.setGeometry(*place)
    window.show()
    found = faults(window)
    assert len(found) == 3, found
    assert "is needed" in found[0]
    assert "reaches out" in found[1]
    assert "share" in found[2]


def test_lines_that_do_not_wrap_are_scrolled_and_not_squeezed(qtbot: QtBot) -> None:
    content = QWidget()
    lines = QVBoxLayout(content)
    for number in range(30):
        lines.addWidget(label(f"line {number}"))
    area = scrolled(content, 400, "lines")
    qtbot.addWidget(area)
    area.resize(420, 200)
    area.show()
    assert faults(area) == []
    assert area.verticalScrollBar().maximum() > 0
