"""Qt's own words in the window's language: menus in text fields, its file dialogs."""

from __future__ import annotations

from functools import lru_cache

from PySide6.QtCore import QCoreApplication, QLibraryInfo, QLocale, QTranslator

from app.i18n.catalogue import Language, language

SPOKEN_BY_QT: Language = "en"


def follow_language() -> None:
    """Has Qt say its words in the language in force; menus that are open stay as they are."""
    translator = _translator()
    QCoreApplication.removeTranslator(translator)
    wanted = language()
    if wanted == SPOKEN_BY_QT:
        return
    folder = QLibraryInfo.path(QLibraryInfo.LibraryPath.TranslationsPath)
    if translator.load(QLocale(wanted), "qtbase", "_", folder):
        QCoreApplication.installTranslator(translator)


@lru_cache(maxsize=1)
def _translator() -> QTranslator:
    return QTranslator()
