"""Checks an entry's files against the hashes that they came with."""

from __future__ import annotations

import threading

from engine.api.models import ModelEntry
from engine.gguf.splits import open_model
from engine.library.copying import Report, Work, sha256_of, silent
from engine.library.errors import Damaged, NothingToCompare, Offline
from engine.library.library import Library
from engine.library.origins import NEVER, now
from engine.prefiller.formats import open_prefiller


def verify(
    library: Library,
    entry: ModelEntry,
    report: Report = silent,
    stop: threading.Event | None = None,
) -> None:
    """Reads every byte. Raises Damaged with the file that differs, NothingToCompare if no hash is
    known (its headers have then been read, and are sound), a GgufError, Offline, Stopped."""
    if entry.state in ("offline", "absent"):
        raise Offline(path=str(entry.path))
    if entry.kind == "prefiller":
        open_prefiller(entry.path)
    elif entry.kind == "decoder":
        open_model(entry.path)
    hashed = [file for file in entry.files if file.sha256]
    if len(hashed) < len(entry.files):
        raise NothingToCompare(name=entry.name)
    work = Work(f"Verifying {entry.name}", entry.bytes, report, stop)
    for file in hashed:
        status = file.path.stat()
        found = sha256_of(file.path, work)
        known = library.origins.of(file.path)
        assert known is not None, "a hash without an origin"
        right = found == file.sha256
        library.origins.put(
            file.path,
            known.origin,
            size=status.st_size,
            # No file's: a damaged one is shown as changed until it is verified or fetched again.
            mtime_ns=status.st_mtime_ns if right else -1,
            sha256=known.sha256,
            verified_at=now() if right else known.verified_at or NEVER,
        )
        if not right:
            raise Damaged(path=str(file.path), expected=str(file.sha256), found=found)
