"""The theme in force: which colours, at which font size, and when they change."""

from __future__ import annotations

import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QObject, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication

from app.theme.accents import accented
from app.theme.restyle import Restyling
from app.theme.stylesheet import stylesheet
from app.theme.tokens import DARK, LIGHT, TYPE, Colours

Mode = Literal["system", "light", "dark"]


class Theme(QObject):
    """`changed` is sent after new colours or sizes are in force for all that is on the screen."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._mode: Mode = "system"
        self._scale = 1.0
        self._accent = "indigo"
        self._restyling: Restyling | None = None
        self._images = tempfile.TemporaryDirectory(prefix="twofold-theme-")
        QGuiApplication.styleHints().colorSchemeChanged.connect(self._system_changed)

    @property
    def is_dark(self) -> bool:
        if self._mode != "system":
            return self._mode == "dark"
        return QGuiApplication.styleHints().colorScheme() == Qt.ColorScheme.Dark

    @property
    def colours(self) -> Colours:
        return accented(DARK if self.is_dark else LIGHT, self._accent, dark=self.is_dark)

    @property
    def scale(self) -> float:
        return self._scale

    def colour(self, token: str) -> str:
        return getattr(self.colours, token)

    def qcolour(self, token: str) -> QColor:
        return QColor(self.colour(token))

    def px(self, size: int) -> int:
        """A type size at the user's font size."""
        return round(size * self._scale)

    def font(self, size: int = TYPE.body, *, weight: int = 400) -> QFont:
        font = QFont(QApplication.font())
        font.setPixelSize(self.px(size))
        font.setWeight(QFont.Weight(weight))
        return font

    def code_font(self) -> QFont:
        font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
        font.setPixelSize(self.px(TYPE.code))
        return font

    def apply(self, *, mode: Mode, scale: float = 1.0, accent: str | None = None) -> None:
        """Puts the theme in force for the whole application. Without an accent it stays."""
        self._mode = mode
        self._scale = scale
        self._accent = accent or self._accent
        self._put_in_force()

    def settle(self) -> None:
        """Gives every widget the look in force at once, also those that nobody sees yet."""
        if self._restyling is not None:
            self._restyling.settle()

    def _system_changed(self) -> None:
        if self._mode == "system":
            self._put_in_force()

    def _put_in_force(self) -> None:
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        colours = self.colours
        palette = QPalette()
        roles = QPalette.ColorRole
        for role, colour in {
            roles.Window: colours.bg,
            roles.WindowText: colours.text,
            roles.Base: colours.bg,
            roles.AlternateBase: colours.surface,
            roles.Text: colours.text,
            roles.Button: colours.raised,
            roles.ButtonText: colours.text,
            roles.Highlight: colours.selection,
            roles.HighlightedText: colours.text,
            roles.Link: colours.prefill,
            roles.LinkVisited: colours.prefill,
            roles.PlaceholderText: colours.text_2,
            roles.ToolTipBase: colours.raised,
            roles.ToolTipText: colours.text,
        }.items():
            palette.setColor(role, QColor(colour))
        application.setPalette(palette)
        sheet = stylesheet(
            colours,
            scale=self._scale,
            arrow_down=self._image("chevron-down"),
            check=self._image("check", "on_prefill"),
        )
        if self._restyling is None:
            self._restyling = Restyling(application)
        self._restyling.begin(sheet, self.changed.emit)

    def _image(self, name: str, token: str = "text_2") -> str:
        """An icon as a file, for the stylesheet, which takes nothing else."""
        from app.theme.icons import icon

        path = Path(self._images.name) / f"{name}-{'dark' if self.is_dark else 'light'}.png"
        if not path.exists():
            icon(name, token).pixmap(QSize(32, 32)).save(str(path))
        return path.as_posix()


@lru_cache(maxsize=1)
def theme() -> Theme:
    """The application's one theme."""
    return Theme()
