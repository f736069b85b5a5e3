"""One SQLite file for what must survive: jobs, where files came from, and what headers said.

SQLite gives what a queue on disk needs: a change is there whole or not at all, whatever kills
the process, and several processes may look at once.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
import time
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import Any

from engine import paths
from engine.library.errors import WriteFailed

log = logging.getLogger(__name__)

_VERSION = 2
_BUSY_S = 10.0
_SCHEMA = """
CREATE TABLE headers (
    path BLOB PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, facts TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE pairings (
    prefiller TEXT NOT NULL, decoder TEXT NOT NULL, pairing TEXT NOT NULL,
    PRIMARY KEY (prefiller, decoder)
) WITHOUT ROWID;
CREATE TABLE origins (
    path BLOB PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
    sha256 TEXT, origin TEXT NOT NULL, verified_at TEXT
) WITHOUT ROWID;
CREATE TABLE folders (path BLOB PRIMARY KEY, device INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE referenced (path BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE jobs (
    id TEXT PRIMARY KEY, kind TEXT NOT NULL, title TEXT NOT NULL, state TEXT NOT NULL,
    priority INTEGER NOT NULL, created REAL NOT NULL, work TEXT NOT NULL,
    progress TEXT NOT NULL, failure TEXT, notices TEXT NOT NULL, result TEXT
) WITHOUT ROWID;
"""


def database_file() -> Path:
    return paths.data_folder() / "models.sqlite"


class Database:
    """Safe for several threads: one connection, one statement or transaction at a time."""

    def __init__(self, file: Path | None = None) -> None:
        """A damaged file is set aside, not deleted, and a new one begun: models stay on disk.

        Raises WriteFailed.
        """
        self.file = file or database_file()
        self._lock = threading.RLock()
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self._connection = self._open()
        except (OSError, sqlite3.OperationalError) as error:
            raise WriteFailed(path=str(self.file), reason=str(error)) from error
        except sqlite3.DatabaseError as error:
            self._set_aside(error)
            self._connection = self._open()

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._connection.execute(statement, values).fetchall()

    def run(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Gives how many rows changed."""
        with self.transaction() as connection:
            return connection.execute(statement, values).rowcount

    def run_many(self, statement: str, values: Iterable[Sequence[Any]]) -> None:
        with self.transaction() as connection:
            connection.executemany(statement, values)

    @contextlib.contextmanager
    def transaction(self) -> Generator[sqlite3.Connection]:
        """All of the block's changes, or none. Raises WriteFailed."""
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                try:
                    yield self._connection
                except BaseException:
                    self._connection.execute("ROLLBACK")
                    raise
                self._connection.execute("COMMIT")
            except sqlite3.OperationalError as error:  # the disk is full, or gone
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise WriteFailed(path=str(self.file), reason=str(error)) from error

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.file, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("BEGIN IMMEDIATE")
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version == 0:
                for statement in _SCHEMA.split(";"):
                    connection.execute(statement)
            if version == 1:  # which knew no drafters, and took them for decoders
                connection.execute("DELETE FROM headers")
            if version < _VERSION:
                connection.execute(f"PRAGMA user_version={_VERSION}")
            connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        return connection

    def _set_aside(self, error: sqlite3.DatabaseError) -> None:
        aside = self.file.with_name(f"{self.file.name}.damaged-{int(time.time())}")
        log.error("library.database_damaged", extra={"reason": str(error), "kept": str(aside)})
        self.file.replace(aside)
        for suffix in ("-wal", "-shm"):
            self.file.with_name(self.file.name + suffix).unlink(missing_ok=True)
