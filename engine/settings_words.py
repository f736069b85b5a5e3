"""Sentences for settings that are unknown, wrong, unreadable or not saved."""

from __future__ import annotations

SENTENCES: dict[str, str] = {
    "settings.bad_value": (
        "The setting {name} (from the {source}) has a value that it cannot have: {problem}. It "
        "means: {doc} Its default is {default}."
    ),
    "settings.not_saved": (
        "The settings could not be saved to {path} ({problem}), so they are as before. Check that "
        "there is space and that you may write there."
    ),
    "settings.unknown": "There is no setting {name} (from the {source}). {suggestion}",
    "settings.unreadable": (
        "The settings file {path} cannot be read ({problem}). Correct it, or move it away to start "
        "with the defaults."
    ),
}
