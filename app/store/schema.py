"""The database's tables, and the steps that bring an older file up to date."""

from __future__ import annotations

# Step k takes a file from version k to k + 1. Only ever add steps; never change one that shipped.
MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE folders (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL
    );
    CREATE TABLE chats (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        title TEXT NOT NULL DEFAULT '',
        created REAL NOT NULL,
        updated REAL NOT NULL,
        pinned INTEGER NOT NULL DEFAULT 0,
        folder INTEGER REFERENCES folders(id) ON DELETE SET NULL,
        settings TEXT NOT NULL DEFAULT '{}',
        active_root INTEGER,
        deleted REAL
    );
    CREATE INDEX chats_by_time ON chats(updated DESC) WHERE deleted IS NULL;
    CREATE TABLE messages (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        chat INTEGER NOT NULL REFERENCES chats(id) ON DELETE CASCADE,
        parent INTEGER,
        active_child INTEGER,
        role TEXT NOT NULL,
        content TEXT NOT NULL,
        reasoning TEXT,
        status TEXT NOT NULL DEFAULT 'done',
        owner INTEGER,
        created REAL NOT NULL,
        report TEXT,
        failure TEXT,
        deleted REAL
    );
    CREATE INDEX messages_by_chat ON messages(chat);
    CREATE INDEX messages_by_parent ON messages(parent);
    CREATE INDEX messages_streaming ON messages(status) WHERE status = 'streaming';
    CREATE TABLE attachments (
        message INTEGER NOT NULL REFERENCES messages(id) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        name TEXT NOT NULL,
        text TEXT NOT NULL,
        tokens INTEGER,
        PRIMARY KEY (message, position)
    ) WITHOUT ROWID;
    CREATE TABLE drafts (
        chat INTEGER PRIMARY KEY,
        text TEXT NOT NULL,
        attachments TEXT NOT NULL DEFAULT '[]'
    );
    CREATE TABLE presets (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        settings TEXT NOT NULL
    );
    -- A message is indexed when it is finished: an answer that grows would be indexed all over.
    CREATE VIRTUAL TABLE message_words USING fts5(
        content, tokenize = "unicode61 remove_diacritics 2", prefix = '2 3'
    );
    CREATE TRIGGER words_added AFTER INSERT ON messages WHEN new.status <> 'streaming' BEGIN
        INSERT INTO message_words(rowid, content) VALUES (new.id, new.content);
    END;
    CREATE TRIGGER words_changed AFTER UPDATE OF content, status ON messages
    WHEN new.status <> 'streaming' BEGIN
        DELETE FROM message_words WHERE rowid = new.id;
        INSERT INTO message_words(rowid, content) VALUES (new.id, new.content);
    END;
    CREATE TRIGGER words_removed AFTER DELETE ON messages BEGIN
        DELETE FROM message_words WHERE rowid = old.id;
    END;
    CREATE VIRTUAL TABLE title_words USING fts5(
        title, tokenize = "unicode61 remove_diacritics 2", prefix = '2 3'
    );
    CREATE TRIGGER titles_added AFTER INSERT ON chats BEGIN
        INSERT INTO title_words(rowid, title) VALUES (new.id, new.title);
    END;
    CREATE TRIGGER titles_changed AFTER UPDATE OF title ON chats BEGIN
        UPDATE title_words SET title = new.title WHERE rowid = new.id;
    END;
    CREATE TRIGGER titles_removed AFTER DELETE ON chats BEGIN
        DELETE FROM title_words WHERE rowid = old.id;
    END;
    """,
)

VERSION = len(MIGRATIONS)
