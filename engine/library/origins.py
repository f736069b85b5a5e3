"""Remembers where each file came from and which hash it had when it was verified."""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.api.models import Origin
from engine.library.copying import COARSEST_NS
from engine.library.database import Database

FOUND = Origin(way="found")
# When a file was verified that never was, and has been found to be another one.
NEVER = ""


@dataclass(frozen=True, slots=True)
class FileOrigin:
    """`size` and `mtime_ns` are those of the file when this was written."""

    path: Path
    size: int
    mtime_ns: int
    sha256: str | None
    origin: Origin
    verified_at: str | None

    def describes(self, size: int, mtime_ns: int) -> bool:
        """Whether the file is still the same, by what the file system says."""
        return (self.size, self.mtime_ns) == (size, mtime_ns)


class Origins:
    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> dict[Path, FileOrigin]:
        rows = self._database.rows(
            "SELECT path, size, mtime_ns, sha256, origin, verified_at FROM origins"
        )
        found = (_origin(row) for row in rows)
        return {one.path: one for one in found}

    def of(self, path: Path) -> FileOrigin | None:
        rows = self._database.rows(
            "SELECT path, size, mtime_ns, sha256, origin, verified_at FROM origins WHERE path = ?",
            (os.fsencode(path),),
        )
        return _origin(rows[0]) if rows else None

    def put(
        self,
        path: Path,
        origin: Origin,
        *,
        size: int,
        mtime_ns: int,
        sha256: str | None = None,
        verified_at: str | None = None,
    ) -> None:
        self._database.run(
            "INSERT OR REPLACE INTO origins VALUES (?, ?, ?, ?, ?, ?)",
            (os.fsencode(path), size, mtime_ns, sha256, origin.model_dump_json(), verified_at),
        )

    def put_present(self, path: Path, origin: Origin, sha256: str | None = None) -> None:
        """For a file that is there, without saying that it was verified."""
        status = path.stat()
        self.put(path, origin, size=status.st_size, mtime_ns=status.st_mtime_ns, sha256=sha256)

    def moved(self, old: Path, new: Path) -> None:
        """The file has another path now; `new` must be there."""
        found = self.of(old)
        self.forget([old])
        if found is not None:
            status = new.stat()
            off = abs(status.st_mtime_ns - found.mtime_ns)
            same = status.st_size == found.size and off < COARSEST_NS
            self.put(
                new,
                found.origin,
                size=status.st_size,
                mtime_ns=status.st_mtime_ns if same else found.mtime_ns,
                sha256=found.sha256,
                verified_at=found.verified_at,
            )

    def forget(self, paths: Sequence[Path]) -> None:
        self._database.run_many(
            "DELETE FROM origins WHERE path = ?", [(os.fsencode(path),) for path in paths]
        )


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _origin(row: tuple[object, ...]) -> FileOrigin:
    path, size, mtime_ns, sha256, origin, verified_at = row
    assert isinstance(path, bytes) and isinstance(size, int) and isinstance(mtime_ns, int)
    return FileOrigin(
        path=Path(os.fsdecode(path)),
        size=size,
        mtime_ns=mtime_ns,
        sha256=sha256 if isinstance(sha256, str) else None,
        origin=Origin.model_validate_json(str(origin)),
        verified_at=verified_at if isinstance(verified_at, str) else None,
    )
