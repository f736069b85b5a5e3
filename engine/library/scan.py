"""Reads what is on disk: every file's facts, from its header once and from the cache after that.

A file is the same as before while its size and time of change are. What was seen on a drive that
is not connected now is remembered.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from engine.gguf.errors import Unreadable
from engine.library.database import Database
from engine.library.facts import FileFacts, read_facts
from engine.library.files import FoundFile, found_files, has_readable_name, is_empty, look_at

_READERS = 2
# So many files' facts are lost at most when the program ends during a first scan.
_KEPT_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class SeenFile:
    """`online`: it is there now. `reason` where it cannot be read."""

    path: Path
    size: int
    mtime_ns: int
    facts: FileFacts
    online: bool = True
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class SeenFolder:
    path: Path
    online: bool


@dataclass(frozen=True, slots=True)
class Scan:
    files: tuple[SeenFile, ...]
    folders: tuple[SeenFolder, ...]


def scan(database: Database, folders: Sequence[Path], single: Sequence[Path] = ()) -> Scan:
    """All GGUF files below `folders`, and the `single` ones wherever they are."""
    known = _Known(database)
    online = [(folder, _is_online(database, folder)) for folder in folders]
    found: dict[Path, FoundFile] = {}
    for folder, there in online:
        if there:
            found |= {file.path: file for file in found_files(folder)}
    found |= {path: look_at(path) for path in single}
    away = {
        path: row
        for path, row in known.rows.items()
        if path not in found and _on_an_offline_one(path, online)
    }
    files = known.facts(list(found.values()), single)
    files += [
        SeenFile(path, size, mtime_ns, FileFacts.from_json(text), online=False)
        for path, (size, mtime_ns, text) in away.items()
    ]
    known.forget(found.keys() | away.keys())
    _remember_devices(database, [folder for folder, there in online if there])
    seen = tuple(SeenFolder(folder, there) for folder, there in online)
    return Scan(tuple(sorted(files, key=lambda file: file.path)), seen)


class _Known:
    """The rows of the cache, all read at once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        rows = database.rows("SELECT path, size, mtime_ns, facts FROM headers")
        self.rows: dict[Path, tuple[int, int, str]] = {
            Path(os.fsdecode(path)): (size, mtime_ns, text) for path, size, mtime_ns, text in rows
        }

    def facts(self, found: Sequence[FoundFile], single: Sequence[Path]) -> list[SeenFile]:
        files: list[SeenFile] = []
        new: list[FoundFile] = []
        alone = set(single)
        for file in found:
            row = self.rows.get(file.path)
            if file.reason is not None:
                kept = row if row and file.path in alone else None
                facts = FileFacts.from_json(kept[2]) if kept else FileFacts()
                size = kept[0] if kept else file.size
                missing = file.path in alone
                files.append(
                    SeenFile(file.path, size, 0, facts, online=not missing, reason=file.reason)
                )
            elif not has_readable_name(file.path):
                reason = "its name is not valid text; rename it"
                files.append(SeenFile(file.path, file.size, 0, FileFacts(), reason=reason))
            elif row is not None and row[:2] == (file.size, file.mtime_ns):
                facts = FileFacts.from_json(row[2])
                files.append(SeenFile(file.path, file.size, file.mtime_ns, facts))
            else:
                new.append(file)
        return files + self._read(new)

    def _read(self, new: Sequence[FoundFile]) -> list[SeenFile]:
        seen: list[SeenFile] = []
        with ThreadPoolExecutor(_READERS, "library-scan") as readers:
            for first in range(0, len(new), _KEPT_AT_ONCE):
                files = new[first : first + _KEPT_AT_ONCE]
                read = list(readers.map(read_facts, [file.path for file in files]))
                for file, facts in zip(files, read, strict=True):
                    seen.append(SeenFile(file.path, file.size, file.mtime_ns, facts))
                self._keep(seen[first:])
        return seen

    def _keep(self, seen: Sequence[SeenFile]) -> None:
        """What could not be read now may be readable soon without being changed."""
        rows = [
            (os.fsencode(file.path), file.size, file.mtime_ns, file.facts.to_json())
            for file in seen
            if not file.facts.problem or file.facts.problem["code"] != Unreadable.code
        ]
        self._database.run_many("INSERT OR REPLACE INTO headers VALUES (?, ?, ?, ?)", rows)

    def forget(self, present: set[Path]) -> None:
        gone = [(os.fsencode(path),) for path in self.rows.keys() - present]
        if gone:
            self._database.run_many("DELETE FROM headers WHERE path = ?", gone)


def _is_online(database: Database, folder: Path) -> bool:
    """Whether the folder is there. An unplugged drive may leave its empty folder behind: that one
    is then on another device than the models were."""
    try:
        device = folder.stat().st_dev
        empty = is_empty(folder)
    except OSError:
        return False
    known = database.rows("SELECT device FROM folders WHERE path = ?", (os.fsencode(folder),))
    return not (empty and known and known[0][0] != device)


def _on_an_offline_one(path: Path, folders: Sequence[tuple[Path, bool]]) -> bool:
    holding = [(folder, there) for folder, there in folders if path.is_relative_to(folder)]
    return bool(holding) and not any(there for _, there in holding)


def _remember_devices(database: Database, folders: Sequence[Path]) -> None:
    rows: list[tuple[bytes, int]] = []
    known = dict(database.rows("SELECT path, device FROM folders"))
    for folder in folders:
        try:
            row = os.fsencode(folder), folder.stat().st_dev
        except OSError:
            continue
        if known.get(row[0]) != row[1]:
            rows.append(row)
    if rows:
        database.run_many("INSERT OR REPLACE INTO folders VALUES (?, ?)", rows)
