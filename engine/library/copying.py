"""Copies, hashes and moves large files: with progress, cancellable, whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.library.errors import FileUnreadable, NameTaken, NoRoom, Stopped, WriteFailed

CHUNK = 4 << 20
# Left free on the disk, so that the system goes on working.
MARGIN = 256 << 20
# Drives keep times in steps of up to two seconds.
COARSEST_NS = 2_000_000_001

Report = Callable[[int, int], None]


def silent(done: int, total: int) -> None:
    """Progress for nobody."""
    del done, total


class Work:
    """What several steps of one piece of work share: its progress in bytes, and its end.

    `check` raises Stopped once `stop` is set.
    """

    def __init__(
        self,
        what: str,
        total: int,
        report: Report = silent,
        stop: threading.Event | None = None,
    ) -> None:
        self.what = what
        self.total = total
        self.done = 0
        self._report = report
        self._stop = stop

    def advance(self, nbytes: int) -> None:
        self.check()
        self.count(nbytes)

    def count(self, nbytes: int) -> None:
        """For a step that is done and cannot be stopped any more."""
        self.done += nbytes
        self._report(self.done, self.total)

    def check(self) -> None:
        if self._stop is not None and self._stop.is_set():
            raise Stopped(what=self.what)


def sha256_of(path: Path, work: Work) -> str:
    """Raises FileUnreadable or Stopped."""
    total = hashlib.sha256()
    try:
        with path.open("rb", buffering=0) as file:
            while piece := file.read(CHUNK):
                total.update(piece)
                work.advance(len(piece))
    except OSError as error:
        raise FileUnreadable(path=str(path), reason=error.strerror or str(error)) from error
    return total.hexdigest()


def require_room(folder: Path, needed: int, free: int | None = None) -> None:
    """Raises NoRoom, or WriteFailed where the folder is gone."""
    try:
        left = shutil.disk_usage(folder).free if free is None else free
    except OSError as error:
        raise WriteFailed(path=str(folder), reason=error.strerror or str(error)) from error
    if left < needed + MARGIN:
        raise NoRoom(folder=str(folder), needed=needed + MARGIN, free=left)


def is_copy(source: Path, target: Path) -> bool:
    """Whether the target is there and came from the source, by what the file system says."""
    try:
        one, other = source.stat(), target.stat()
    except OSError:
        return False
    apart = abs(one.st_mtime_ns - other.st_mtime_ns)
    return one.st_size == other.st_size and apart < COARSEST_NS


def copied(source: Path, target: Path, work: Work) -> str:
    """Copies to a name that appears only when the copy is whole; gives its SHA-256.

    Raises NameTaken, FileUnreadable, NoRoom, WriteFailed or Stopped; then nothing is left.
    """
    if target.exists():
        raise NameTaken(path=str(target))
    partial = target.with_name(f".{target.name}.copying")
    try:
        digest = _copy(source, partial, work)
        with contextlib.suppress(OSError):
            shutil.copystat(source, partial)
        partial.replace(target)
        sync_folder(target.parent)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            free = shutil.disk_usage(target.parent).free
            needed = work.total - work.done
            raise NoRoom(folder=str(target.parent), needed=needed, free=free) from error
        raise WriteFailed(path=str(target), reason=error.strerror or str(error)) from error
    finally:
        partial.unlink(missing_ok=True)
    return digest


def moved(source: Path, target: Path, work: Work) -> None:
    """Renames where both are on one disk; else copies, and deletes the source at the end."""
    if target.exists():
        raise NameTaken(path=str(target))
    work.check()
    size = source.stat().st_size
    try:
        source.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise WriteFailed(path=str(target), reason=error.strerror or str(error)) from error
        copied(source, target, work)
        removed(source)
    else:
        work.count(size)


def removed(path: Path) -> None:
    """Raises WriteFailed; a file that is gone already is as wanted."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise WriteFailed(path=str(path), reason=error.strerror or str(error)) from error


def made(folder: Path) -> Path:
    """The folder, there now. Raises WriteFailed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WriteFailed(path=str(folder), reason=error.strerror or str(error)) from error
    return folder


def remove_empty(folders: Sequence[Path], up_to: Path) -> None:
    """Removes folders that hold nothing any more, and those around them, below `up_to`."""
    for folder in sorted(set(folders), key=lambda path: len(path.parts), reverse=True):
        while folder != up_to and folder.is_relative_to(up_to):
            try:
                folder.rmdir()
            except OSError:
                break
            folder = folder.parent


def sync_folder(folder: Path) -> None:
    """Makes new names survive a power cut, where the system can."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _copy(source: Path, partial: Path, work: Work) -> str:
    try:
        reading = source.open("rb", buffering=0)
    except OSError as error:
        raise FileUnreadable(path=str(source), reason=error.strerror or str(error)) from error
    total = hashlib.sha256()
    with reading, partial.open("wb", buffering=0) as writing:
        while piece := reading.read(CHUNK):
            total.update(piece)
            writing.write(piece)
            work.advance(len(piece))
        os.fsync(writing.fileno())
    return total.hexdigest()
