"""The window's words in every language, `tr("sidebar.new_chat")`, and its numbers."""

from app.i18n.catalogue import LANGUAGES, Language, language, set_language, system_language, tr

__all__ = ["LANGUAGES", "Language", "language", "set_language", "system_language", "tr"]
