"""Tells whether a file's name from the internet may become a path here."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

_MAX_BYTES = 200  # of one name; file systems end at 255, and suffixes are added
_MAX_PATH = 600
_MAX_DEPTH = 8
# Windows gives these to devices, whatever follows the first dot.
_DEVICES = re.compile(r"(?:CON|PRN|AUX|NUL|COM[0-9¹²³]|LPT[0-9¹²³])(?:\..*)?", re.IGNORECASE)
_REPO = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)


def is_safe_path(path: str) -> bool:
    """Whether `path`, relative, stays below its folder and can exist on every system."""
    if not path or len(path) > _MAX_PATH or path.startswith("/") or "\\" in path:
        return False
    parts = path.split("/")
    return len(parts) <= _MAX_DEPTH and all(_is_safe_name(part) for part in parts)


def is_repo(text: str) -> bool:
    """`user/repo`, as the hub allows it."""
    return _REPO.fullmatch(text) is not None and ".." not in text and "--" not in text


def folded(path: str) -> str:
    """Equal for names that some systems cannot tell apart."""
    return str(PurePosixPath(path)).casefold()


def _is_safe_name(name: str) -> bool:
    if not name or name.startswith((".", " ")) or name.endswith((".", " ")):
        return False
    if any(character in '<>:"|?*' or not character.isprintable() for character in name):
        return False
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return False
    return size <= _MAX_BYTES and _DEVICES.fullmatch(name) is None
