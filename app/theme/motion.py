"""Whether things on the screen may move: not when the system, or the user, asks for stillness."""

from __future__ import annotations

from PySide6.QtWidgets import QApplication, QStyle

_still = False


def set_still(still: bool) -> None:
    """The user's own wish, beside the system's."""
    global _still
    _still = still


def reduced_motion() -> bool:
    hint = QStyle.StyleHint.SH_Widget_Animation_Duration
    return _still or QApplication.style().styleHint(hint) == 0
