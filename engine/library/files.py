"""Finds model files below a folder, whatever else is wrong with the folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SUFFIX = ".gguf"
_MAX_DEPTH = 12


@dataclass(frozen=True, slots=True)
class FoundFile:
    """`reason`: the system's words where the file, or its folder, cannot be looked at."""

    path: Path
    size: int = 0
    mtime_ns: int = 0
    reason: str | None = None


def found_files(folder: Path) -> Iterator[FoundFile]:
    """Every GGUF file below `folder`. Links to files are followed, links to folders are not (they
    may lead in circles); names that begin with a dot are not ours to show."""
    yield from _below(folder, 0)


def look_at(path: Path) -> FoundFile:
    """One file. A dangling link and a file that may not be read are told, not raised."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            return FoundFile(path, reason="not a regular file")
    except OSError as error:
        return FoundFile(path, reason=_words(path, error))
    return FoundFile(path, status.st_size, status.st_mtime_ns)


def is_empty(folder: Path) -> bool:
    with os.scandir(folder) as entries:
        return next(entries, None) is None


def has_readable_name(path: Path) -> bool:
    """Whether the name is text; a name in an unknown encoding cannot be stored or shown."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(path: Path) -> str:
    """A name that can always be printed."""
    return os.fsencode(path).decode("utf-8", "replace")


def printable(path: Path) -> Path:
    """The path itself, unless its name is no text."""
    return path if has_readable_name(path) else Path(shown(path))


def _below(folder: Path, depth: int) -> Iterator[FoundFile]:
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        if depth:  # the root itself is judged by whoever asked
            yield FoundFile(folder, reason=error.strerror or str(error))
        return
    for entry in found:
        if entry.name.startswith("."):
            continue
        try:
            if entry.is_dir(follow_symlinks=False):
                if depth < _MAX_DEPTH:
                    yield from _below(Path(entry.path), depth + 1)
                continue
        except OSError:
            continue
        if entry.name.lower().endswith(SUFFIX):
            yield look_at(Path(entry.path))


def _words(path: Path, error: OSError) -> str:
    if path.is_symlink() and isinstance(error, FileNotFoundError):
        return "it is a link to a file that is not there"
    return error.strerror or str(error)
