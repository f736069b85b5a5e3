"""Where files lie until they are whole: `.incoming` in the library's main folder.

A part is named for the hash that it will have, so that two jobs never fetch the same bytes and
a restarted one finds what is there. The library does not look into the folder.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from pathlib import Path

from engine.downloads.errors import CannotWrite
from engine.library.changes import INCOMING

_PART, _QUARANTINED = ".part", ".quarantined"


class Staging:
    """Of one main folder."""

    def __init__(self, main: Path) -> None:
        self.folder = main / INCOMING

    def make(self) -> None:
        """Raises CannotWrite."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or str(error)
            raise CannotWrite(path=str(self.folder), reason=reason) from error

    def part(self, sha256: str) -> Path:
        return self.folder / f"{sha256}{_PART}"

    def have(self, sha256: str) -> int:
        """Bytes that are there."""
        try:
            return self.part(sha256).stat().st_size
        except OSError:
            return 0

    def quarantine(self, sha256: str) -> None:
        """Takes wrong bytes away from where they would be resumed; the last ones are kept."""
        with contextlib.suppress(FileNotFoundError):
            self.part(sha256).replace(self.folder / f"{sha256}{_QUARANTINED}")

    def sweep(self, wanted: Collection[str]) -> None:
        """Removes what no job needs any more."""
        try:
            names = [path for path in self.folder.iterdir() if path.is_file()]
        except OSError:
            return
        for path in names:
            if path.name.partition(".")[0] not in wanted:
                with contextlib.suppress(OSError):
                    path.unlink()
