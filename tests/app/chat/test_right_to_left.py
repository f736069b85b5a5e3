"""Text that is written from right to left is laid out so, within a window that is not."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QTextBrowser
from pytestqt.qtbot import QtBot

from app.screenshots import staged


def starts(browser: QTextBrowser) -> list[tuple[str, float]]:
    """Each paragraph with where in its width its first letter stands: 0 is left, 1 right."""
    found: list[tuple[str, float]] = []
    block = browser.document().begin()
    while block.isValid():
        if block.text().strip():
            line = block.layout().lineAt(0)
            first = line.cursorToX(0)
            assert isinstance(first, tuple)
            found.append((block.text(), first[0] / line.width()))
        block = block.next()
    return found


def shown(scene: str, folder: Path) -> list[tuple[str, float]]:
    folder.mkdir()
    with staged(folder, scene) as stage:
        assert stage.window.layoutDirection() == Qt.LayoutDirection.LeftToRight
        browsers = stage.window.chat.view.findChildren(QTextBrowser)
        return [start for each in browsers if each.isVisible() for start in starts(each)]


def test_a_message_from_right_to_left_begins_at_the_right(tmp_path: Path, qtbot: QtBot) -> None:
    arabic = [start for start in shown("chat-rtl", tmp_path / "rtl") if start[0][0] >= "\u0600"]
    assert len(arabic) >= 5  # the question, a sentence, a list of three
    assert all(place > 0.9 for _, place in arabic), arabic
    sentence, place = shown("chat-answer", tmp_path / "ltr")[0]
    assert place < 0.1, sentence
    qtbot.wait(10)
