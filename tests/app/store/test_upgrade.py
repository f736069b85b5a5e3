"""What version 0.1.0 left on the disk opens in today's program: chats, drafts, preferences.

The tables below are those that 0.1.0 made, copied on purpose: what has shipped never changes.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from app.preferences import PreferencesFile
from app.store.chats import ChatStore
from app.store.schema import MIGRATIONS
from engine.settings_store import SettingsStore, settings_file

FIRST = """
CREATE TABLE folders (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE chats (id INTEGER PRIMARY KEY AUTOINCREMENT, title TEXT NOT NULL DEFAULT '',
    created REAL NOT NULL, updated REAL NOT NULL, pinned INTEGER NOT NULL DEFAULT 0,
    folder INTEGER REFERENCES folders(id) ON DELETE SET NULL, settings TEXT NOT NULL DEFAULT '{}',
    active_root INTEGER, deleted REAL);
CREATE INDEX chats_by_time ON chats(updated DESC) WHERE deleted IS NULL;
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT,
    chat INTEGER NOT NULL REFERENCES chats(id) ON DELETE CASCADE, parent INTEGER,
    active_child INTEGER, role TEXT NOT NULL, content TEXT NOT NULL, reasoning TEXT,
    status TEXT NOT NULL DEFAULT 'done', owner INTEGER, created REAL NOT NULL, report TEXT,
    failure TEXT, deleted REAL);
CREATE INDEX messages_by_chat ON messages(chat);
CREATE INDEX messages_by_parent ON messages(parent);
CREATE INDEX messages_streaming ON messages(status) WHERE status = 'streaming';
CREATE TABLE attachments (message INTEGER NOT NULL REFERENCES messages(id) ON DELETE CASCADE,
    position INTEGER NOT NULL, name TEXT NOT NULL, text TEXT NOT NULL, tokens INTEGER,
    PRIMARY KEY (message, position)) WITHOUT ROWID;
CREATE TABLE drafts (chat INTEGER PRIMARY KEY, text TEXT NOT NULL,
    attachments TEXT NOT NULL DEFAULT '[]');
CREATE TABLE presets (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, settings TEXT NOT NULL);
CREATE VIRTUAL TABLE message_words USING fts5(
    content, tokenize = "unicode61 remove_diacritics 2", prefix = '2 3');
CREATE TRIGGER words_added AFTER INSERT ON messages WHEN new.status <> 'streaming' BEGIN
    INSERT INTO message_words(rowid, content) VALUES (new.id, new.content); END;
CREATE TRIGGER words_changed AFTER UPDATE OF content, status ON messages
WHEN new.status <> 'streaming' BEGIN
    DELETE FROM message_words WHERE rowid = new.id;
    INSERT INTO message_words(rowid, content) VALUES (new.id, new.content); END;
CREATE TRIGGER words_removed AFTER DELETE ON messages BEGIN
    DELETE FROM message_words WHERE rowid = old.id; END;
CREATE VIRTUAL TABLE title_words USING fts5(
    title, tokenize = "unicode61 remove_diacritics 2", prefix = '2 3');
CREATE TRIGGER titles_added AFTER INSERT ON chats BEGIN
    INSERT INTO title_words(rowid, title) VALUES (new.id, new.title); END;
CREATE TRIGGER titles_changed AFTER UPDATE OF title ON chats BEGIN
    UPDATE title_words SET title = new.title WHERE rowid = new.id; END;
CREATE TRIGGER titles_removed AFTER DELETE ON chats BEGIN
    DELETE FROM title_words WHERE rowid = old.id; END;
PRAGMA user_version = 1;
INSERT INTO chats (id, title, created, updated, pinned, active_root)
    VALUES (1, 'Ships', 1000, 2000, 1, 1);
INSERT INTO messages (id, chat, parent, active_child, role, content, created)
    VALUES (1, 1, NULL, 2, 'user', 'Tell me of a ship.', 1000);
INSERT INTO messages (id, chat, parent, role, content, created, report)
    VALUES (2, 1, 1, 'assistant', 'It sailed.', 1001, '{"path": "odp"}');
INSERT INTO drafts (chat, text) VALUES (1, 'And then?');
"""


@pytest.fixture
def old_chats(tmp_path: Path) -> Path:
    path = tmp_path / "chats.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(FIRST)
    return path


def test_chats_of_the_first_version_are_all_there(old_chats: Path) -> None:
    store = ChatStore(old_chats)
    (chat,) = store.chats()
    assert (chat.title, chat.pinned) == ("Ships", True)
    opened = store.chat(chat.id)
    assert opened is not None
    shown = opened.messages
    assert [one.content for one in shown] == ["Tell me of a ship.", "It sailed."]
    assert shown[1].report == {"path": "odp"}
    assert store.opened.backup is None or store.opened.backup.exists()
    store.close()
    with closing(sqlite3.connect(old_chats)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)


def test_preferences_of_the_first_version_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "window.json"
    written = {"theme": "dark", "language": "ko", "model": "/m/a.gguf", "path": "odp"}
    path.write_text(json.dumps(written))
    values = PreferencesFile(path).values.model_dump()
    assert {name: values[name] for name in written} == written


def test_settings_of_the_first_version_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWOFOLD_HOME", str(tmp_path))
    settings_file().parent.mkdir(parents=True)
    settings_file().write_text("[server]\nport = 4321\n")
    assert SettingsStore().current.server.port == 4321
