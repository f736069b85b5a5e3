"""The chats' file keeps what was written, through crashes, damage and updates."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.store import opening
from app.store.branches import Node, shown_branch
from app.store.chats import ChatStore
from app.store.errors import StoreLocked, StoreNewer
from app.store.opening import open_database
from app.store.records import Attachment, Chat, ChatSettings, Draft
from app.store.schema import MIGRATIONS, VERSION


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chats.db"


def chat_with(store: ChatStore, *texts: str) -> tuple[int, list[int]]:
    chat = store.create_chat("Title")
    messages: list[int] = []
    for number, text in enumerate(texts):
        role = "user" if number % 2 == 0 else "assistant"
        parent = messages[-1] if messages else None
        messages.append(store.add_message(chat, role, text, parent=parent))
    return chat, messages


def get(store: ChatStore, chat: int) -> Chat:
    found = store.chat(chat)
    assert found is not None
    return found


def contents(store: ChatStore, chat: int) -> list[str]:
    return [message.content for message in get(store, chat).messages]


def test_everything_is_there_after_it_was_closed(path: Path) -> None:
    store = ChatStore(path)
    settings = ChatSettings("Be brief", {"temperature": 0.1}, "odp")
    chat = store.create_chat("Title", settings)
    file = Attachment("a.txt", "text", 3)
    first = store.add_message(chat, "user", "Hello", parent=None, attachments=[file])
    answer = store.add_message(chat, "assistant", "", parent=first, status="streaming")
    store.finish(answer, "Hi", "hm", report={"path": "odp"})
    store.save_draft(chat, Draft("more", (file,)))
    store.close()
    store = ChatStore(path)
    found = get(store, chat)
    assert found.settings == settings
    assert found.messages[0].attachments == (file,)
    message = found.messages[1]
    assert (message.content, message.reasoning, message.status) == ("Hi", "hm", "done")
    assert message.report == {"path": "odp"}
    assert store.draft(chat) == Draft("more", (file,))
    assert store.opened.repair is None
    store.close()


WRITER = """
import sys, time
from pathlib import Path
from app.store.chats import ChatStore
store = ChatStore(Path(sys.argv[1]))
chat = store.create_chat("Stream")
first = store.add_message(chat, "user", "Go", parent=None)
answer = store.add_message(chat, "assistant", "", parent=first, status="streaming")
text = ""
while True:
    text += "word "
    store.save_stream(answer, text, None)
    print(len(text), flush=True)
    time.sleep(0.01)
"""


def test_a_killed_window_keeps_what_was_saved_of_its_stream(path: Path) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    saved = 0
    for _ in range(20):
        saved = int(writer.stdout.readline())
    os.kill(writer.pid, signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    store = ChatStore(path)
    assert store.opened.interrupted == 1
    message = get(store, store.chats()[0].id).messages[1]
    assert message.status == "interrupted"
    assert len(message.content) >= saved
    store.close()


def test_another_living_window_keeps_writing_its_answer(path: Path) -> None:
    first = ChatStore(path)
    chat, messages = chat_with(first, "Go")
    answer = first.add_message(chat, "assistant", "", parent=messages[0], status="streaming")
    second = ChatStore(path, alive=lambda _: True)
    # This process is the first window's, so here "alive" cannot be told by the id alone.
    first.reopen(answer)
    first.save_stream(answer, "still here", None)
    assert contents(second, chat) == ["Go", "still here"]
    first.close()
    second.close()


def test_versions_are_chosen_and_remembered(path: Path) -> None:
    store = ChatStore(path)
    chat, messages = chat_with(store, "Q", "A1")
    other = store.add_message(chat, "assistant", "A2", parent=messages[0])
    store.add_message(chat, "user", "Q2", parent=other)
    assert contents(store, chat) == ["Q", "A2", "Q2"]
    store.show_version(other, -1)
    store.close()
    store = ChatStore(path)
    assert contents(store, chat) == ["Q", "A1"]
    shown = get(store, chat).messages[1]
    assert (shown.version, shown.versions) == (1, 2)
    store.reveal(other)
    assert contents(store, chat) == ["Q", "A2", "Q2"]
    store.close()


@given(st.lists(st.integers(min_value=0, max_value=20), max_size=30), st.data())
def test_any_choices_show_one_branch_from_a_root_to_a_leaf(
    parents: list[int], data: st.DataObject
) -> None:
    nodes = [
        Node(
            number,
            parent if 0 < parent < number else None,
            data.draw(st.none() | st.integers(min_value=1, max_value=40)),
        )
        for number, parent in enumerate(parents, start=1)
    ]
    by_id = {node.id: node for node in nodes}
    branch = [shown.id for shown in shown_branch(nodes, data.draw(st.none() | st.integers(1, 40)))]
    assert bool(branch) == bool(nodes)
    for above, below in zip([None, *branch], branch, strict=False):
        assert by_id[below].parent == above
    if branch:
        assert not [node for node in nodes if node.parent == branch[-1]]


def test_a_copy_has_every_branch_and_is_its_own(path: Path) -> None:
    store = ChatStore(path)
    chat, messages = chat_with(store, "Q", "A1")
    other = store.add_message(chat, "assistant", "A2", parent=messages[0])
    store.show_version(other, -1)
    copy = store.duplicate(chat, "Copy")
    assert contents(store, copy) == ["Q", "A1"]
    store.show_version(get(store, copy).messages[1].id, 1)
    assert contents(store, copy) == ["Q", "A2"]
    assert contents(store, chat) == ["Q", "A1"]
    store.close()


def test_deleting_is_undone_until_the_next_start(path: Path) -> None:
    store = ChatStore(path)
    chat, messages = chat_with(store, "Q", "A", "Q2", "A2")
    store.delete_message(messages[2])
    assert contents(store, chat) == ["Q", "A"]
    store.restore_message(messages[2])
    assert contents(store, chat) == ["Q", "A", "Q2", "A2"]
    store.delete_message(messages[2])
    gone, _ = chat_with(store, "bye")
    store.delete(gone)
    assert [row.id for row in store.chats()] == [chat]
    store.restore(gone)
    assert {row.id for row in store.chats()} == {chat, gone}
    store.delete(gone)
    store.close()
    store = ChatStore(path)
    store.restore(gone)
    assert [row.id for row in store.chats()] == [chat]
    assert contents(store, chat) == ["Q", "A"]
    assert store.search("bye") == []
    store.close()


def test_a_chat_of_thousands_of_messages_is_deleted(path: Path) -> None:
    store = ChatStore(path)
    chat, messages = chat_with(store, *["text"] * 1500)
    store.delete_message(messages[0])
    assert contents(store, chat) == []
    store.close()
    ChatStore(path).close()


def test_folders_go_and_their_chats_stay(path: Path) -> None:
    store = ChatStore(path)
    chat, _ = chat_with(store, "Q")
    folder = store.create_folder("Work")
    store.move(chat, folder)
    assert store.chats()[0].folder == folder
    store.delete_folder(folder)
    assert store.chats()[0].folder is None
    store.close()


def test_search_finds_words_by_their_start_in_any_language(path: Path) -> None:
    store = ChatStore(path)
    chat, messages = chat_with(store, "계약서를 요약해 주세요", "The contract runs", "Café?")
    for typed, expected in (("계약", 0), ("contr runs", 1), ("cafe", 2), ("CONTRACT", 1)):
        found = [item.message for item in store.search(typed)]
        assert found == [messages[expected]], typed
    assert [item.message for item in store.search("titl")] == [None]
    assert store.search("contract missing") == []
    for typed in ('"', "AND", "a OR (", "*", "NEAR(", "", "x" * 5000):
        store.search(typed)
    found = store.search("contract")[0]
    start, end = found.spans[0]
    assert found.snippet[start:end] == "contract"
    assert found.chat == chat
    store.close()


def test_an_answer_is_found_when_it_is_finished(path: Path) -> None:
    store = ChatStore(path)
    chat, messages = chat_with(store, "Q")
    answer = store.add_message(chat, "assistant", "", parent=messages[0], status="streaming")
    store.save_stream(answer, "unfinished", None)
    assert store.search("unfinished") == []
    store.finish(answer, "finished now", None)
    assert [item.message for item in store.search("finished")] == [answer]
    store.close()


STEP = "ALTER TABLE chats ADD COLUMN colour TEXT;"


def test_an_update_of_the_file_is_preceded_by_a_copy(path: Path) -> None:
    store = ChatStore(path)
    chat_with(store, "before")
    store.close()
    database, opened = open_database(path, (*MIGRATIONS, STEP))
    with closing(database):
        assert opened.backup is not None and opened.backup.exists()
        assert database.execute("PRAGMA user_version").fetchone()[0] == VERSION + 1
    with closing(sqlite3.connect(opened.backup)) as copy:
        assert copy.execute("SELECT content FROM messages").fetchall() == [("before",)]
        assert copy.execute("PRAGMA user_version").fetchone()[0] == VERSION


def test_an_update_that_fails_changes_nothing(path: Path) -> None:
    store = ChatStore(path)
    chat, _ = chat_with(store, "before")
    store.close()
    broken = (*MIGRATIONS, f"{STEP}\nINSERT INTO nowhere VALUES (1);")
    with pytest.raises(sqlite3.OperationalError, match="nowhere"):
        open_database(path, broken)
    store = ChatStore(path)
    assert contents(store, chat) == ["before"]
    store.close()


def test_a_file_of_a_newer_version_is_left_alone(path: Path) -> None:
    ChatStore(path).close()
    open_database(path, (*MIGRATIONS, STEP))[0].close()
    before = path.read_bytes()
    with pytest.raises(StoreNewer) as refused:
        ChatStore(path)
    assert refused.value.data["version"] == VERSION + 1
    assert path.read_bytes() == before


def test_a_damaged_file_is_kept_aside_and_its_readable_rows_are_saved(path: Path) -> None:
    store = ChatStore(path)
    for number in range(300):
        chat_with(store, f"question {number} " + "x" * 500, "answer")
    store.close()
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2 // 4096 * 4096)
        file.write(b"\xff" * 4096 * 3)
    damaged = path.read_bytes()
    store = ChatStore(path)
    repair = store.opened.repair
    assert repair is not None
    assert repair.moved_to.read_bytes() == damaged
    assert repair.messages > 100
    assert len(store.chats()) >= 250
    chat_with(store, "life goes on")
    store.close()
    store = ChatStore(path)
    assert store.opened.repair is None
    store.close()


def test_a_file_that_is_no_database_is_kept_aside(path: Path) -> None:
    path.write_bytes(b"not a database at all" * 1000)
    store = ChatStore(path)
    assert store.opened.repair is not None
    assert store.opened.repair.moved_to.read_bytes().startswith(b"not a database")
    assert store.chats() == []
    store.close()


def test_a_locked_file_is_a_typed_error_and_nothing_is_lost(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "BUSY_S", 0.1)
    store = ChatStore(path)
    chat, _ = chat_with(store, "Q")
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        started = time.monotonic()
        with pytest.raises(StoreLocked):
            store.rename(chat, "New")
        assert time.monotonic() - started < 5
        assert contents(store, chat) == ["Q"]
        other.rollback()
    store.rename(chat, "New")
    assert store.chats()[0].title == "New"
    store.close()
