"""Opens the chats' file: brings it up to date, and saves what can be saved from a damaged one."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

from app.store.errors import StoreFull, StoreLocked, StoreNewer, StoreUnwritable
from app.store.records import Opened, Repair
from app.store.schema import MIGRATIONS

BUSY_S = 5.0
_SAVED_TABLES = ("folders", "chats", "messages", "attachments", "drafts", "presets")
# What SQLite says of a file that is not, or is no longer, a whole database.
_DAMAGE = ("malformed", "not a database", "disk image", "corrupt", "unsupported file format")


def open_database(
    path: Path, migrations: Sequence[str] = MIGRATIONS
) -> tuple[sqlite3.Connection, Opened]:
    """The connection, and how opening went. Raises the store's errors."""
    with translated(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        repair = None
        try:
            connection = _connect(path)
            _require_whole(connection)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            with contextlib.suppress(UnboundLocalError):
                connection.close()  # pyright: ignore[reportPossiblyUnboundVariable]
            repair = _replace(path, migrations)
            connection = _connect(path)
        backup = _migrate(connection, path, migrations)
        return connection, Opened(repair=repair, backup=backup)


def is_damage(error: sqlite3.Error) -> bool:
    return any(words in str(error) for words in _DAMAGE)


@contextlib.contextmanager
def translated(path: Path) -> Generator[None]:
    """SQLite's errors as the store's, where a person can do something about them."""
    try:
        yield
    except sqlite3.OperationalError as error:
        words = str(error)
        if "locked" in words or "busy" in words:
            raise StoreLocked(path=str(path)) from error
        if "full" in words:
            raise StoreFull(path=str(path)) from error
        if "readonly" in words or "unable to open" in words or "disk I/O" in words:
            raise StoreUnwritable(path=str(path), reason=words) from error
        raise
    except OSError as error:
        raise StoreUnwritable(path=str(path), reason=error.strerror or str(error)) from error


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        # Loses nothing when a process dies; a power cut may cost the last writes.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _require_whole(connection: sqlite3.Connection) -> None:
    verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if verdict != "ok":
        raise sqlite3.DatabaseError(f"malformed: {verdict}")


def _migrate(connection: sqlite3.Connection, path: Path, migrations: Sequence[str]) -> Path | None:
    """Runs the steps that are missing, each whole or not at all, after a copy was made."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(migrations):
        connection.close()
        raise StoreNewer(path=str(path), version=version, known=len(migrations))
    backup = None
    if 0 < version < len(migrations):
        backup = path.with_name(f"{path.stem}.before-version-{len(migrations)}{path.suffix}")
        with contextlib.closing(sqlite3.connect(backup)) as copy:
            connection.backup(copy)
    for number in range(version, len(migrations)):
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Another window may have done this step while this one waited.
            if connection.execute("PRAGMA user_version").fetchone()[0] > number:
                connection.execute("COMMIT")
                continue
            for statement in _statements(migrations[number]):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number + 1}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    return backup


def _statements(script: str) -> Iterator[str]:
    """A script's statements; a trigger's own semicolons do not end it."""
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""


def _replace(path: Path, migrations: Sequence[str]) -> Repair:
    """Moves the damaged file aside and makes a new one with every row that can still be read."""
    stamp = time.strftime("%Y-%m-%d-%H%M%S")
    aside = path.with_name(f"{path.stem}.damaged-{stamp}{path.suffix}")
    for suffix in ("", "-wal", "-shm"):
        part = Path(f"{path}{suffix}")
        if part.exists():
            part.rename(f"{aside}{suffix}")
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    target = sqlite3.connect(new, isolation_level=None)
    with contextlib.closing(target):
        _migrate(target, new, migrations)
        saved = {table: _save_rows(aside, target, table) for table in _SAVED_TABLES}
        # A message whose chat or parent was lost is kept where it can be found.
        target.execute(
            "INSERT INTO chats(id, title, created, updated) SELECT DISTINCT chat, '', created, "
            "created FROM messages WHERE chat NOT IN (SELECT id FROM chats) GROUP BY chat"
        )
        target.execute(
            "UPDATE messages SET parent = NULL "
            "WHERE parent IS NOT NULL AND parent NOT IN (SELECT id FROM messages)"
        )
    new.replace(path)
    return Repair(moved_to=aside, chats=saved["chats"], messages=saved["messages"])


def _save_rows(source: Path, target: sqlite3.Connection, table: str) -> int:
    """Copies the readable rows one by one, from both ends, around the damaged pages."""
    columns = [row[1] for row in target.execute(f"PRAGMA table_info({table})")]
    insert = f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * len(columns))})"
    saved = 0
    key = "rowid" if table != "attachments" else "message"
    for direction in ("ASC", "DESC"):
        try:
            # A copy of the connection each time: an error leaves it unusable.
            with contextlib.closing(sqlite3.connect(source)) as damaged:
                rows = damaged.execute(
                    f"SELECT {', '.join(columns)} FROM {table} ORDER BY {key} {direction}"
                )
                for row in rows:
                    saved += target.execute(insert, row).rowcount
        except sqlite3.DatabaseError:
            continue
    return saved
