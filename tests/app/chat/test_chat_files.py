"""Chats leave as files and come back from them: Markdown to read, JSON with everything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from app.chat.chat_files import JSON, ChatFiles
from app.main import Application
from app.store.chats import ChatStore
from app.store.records import Attachment, ChatSettings
from tests.app.chat.test_chat import ask
from tests.app.conftest import MakeApp
from tests.support.fake_engine import FakeEngine


@pytest.fixture
def said(ready_app: Application) -> list[str]:
    heard: list[str] = []
    ready_app.context.notify = lambda sentence, *_: heard.append(sentence)
    return heard


@pytest.fixture
def files(ready_app: Application) -> ChatFiles:
    return ready_app.window.sidebar.files


def branched(store: ChatStore) -> int:
    """A chat with two versions of its answer, the older one shown, a file and settings."""
    settings = ChatSettings("Be brief.", {"temperature": 0.2}, "odp")
    chat = store.create_chat("Vertrag, 계약", settings)
    store.move(chat, store.create_folder("Work"))
    store.pin(chat, True)
    files = [Attachment("a.txt", "the text", 2)]
    question = store.add_message(chat, "user", "What?", parent=None, attachments=files)
    first = store.add_message(chat, "assistant", "One.", parent=question)
    store.finish(first, "One.", "thought", report=REPORT)
    store.add_message(chat, "assistant", "Two.", parent=question)
    store.show_version(first + 1, -1)
    return chat


REPORT: dict[str, Any] = {
    "stop_reason": "eos", "prompt_tokens": 5, "cached_tokens": 0, "new_tokens": 5,
    "answer_tokens": [1, 2], "seed": 1, "path": "odp", "model": "m.gguf",
}  # fmt: skip


def without_ids(chat: Any) -> Any:
    data = chat.model_dump()
    places = {item["id"]: place for place, item in enumerate(data["messages"])} | {None: None}
    data["active_root"] = places[data["active_root"]]
    for item in data["messages"]:
        for name in ("id", "parent", "active_child"):
            item[name] = places[item[name]]
    return data


def test_all_chats_come_back_from_their_file_with_every_branch_file_and_setting(
    files: ChatFiles, store: ChatStore, said: list[str], tmp_path: Path, qtbot: QtBot
) -> None:
    chat = branched(store)
    for number in range(120):
        store.create_chat(f"Chat {number}")
    path = tmp_path / "chats.json"
    files.export_all(path)
    qtbot.waitUntil(lambda: bool(said))
    assert "121" in said.pop()
    before = store.whole(chat)
    for row in store.chats():
        store.delete(row.id)
    files.import_from(path)
    qtbot.waitUntil(lambda: bool(said))
    assert "121" in said.pop()
    rows = store.chats()
    assert len(rows) == 121
    copy = next(row.id for row in rows if row.title == "Vertrag, 계약")
    assert copy != chat
    assert without_ids(store.whole(copy)) == without_ids(before)
    shown = store.chat(copy)
    assert shown is not None
    assert [item.content for item in shown.messages] == ["What?", "One."]
    assert shown.messages[0].attachments == (Attachment("a.txt", "the text", 2),)
    assert [found.chat for found in store.search("One")] == [copy]
    assert [folder.name for folder in store.folders()] == ["Work"]


def test_one_chat_is_written_as_the_files_ending_says(
    ready_app: Application, files: ChatFiles, said: list[str], tmp_path: Path, qtbot: QtBot
) -> None:
    ask(qtbot, ready_app.window.chat, "Hello?")
    chat = ready_app.window.chat.chat
    assert chat is not None
    for name in ("a.md", "a.json"):
        files.export(chat, tmp_path / name)
        qtbot.waitUntil(lambda: bool(said))
        said.clear()
    text = (tmp_path / "a.md").read_text(encoding="utf-8")
    assert text.startswith("# Hello?") and "## You\n\nHello?" in text and "Hello." in text
    data = json.loads((tmp_path / "a.json").read_bytes())
    assert [item["content"] for item in data["chats"][0]["messages"]] == ["Hello?", "Hello."]
    assert data["chats"][0]["messages"][1]["report"]["path"] == "odp"
    assert sorted(path.name for path in tmp_path.glob("a.*")) == ["a.json", "a.md"]


def test_an_imported_chat_appears_in_the_sidebar_and_opens(
    ready_app: Application, files: ChatFiles, said: list[str], tmp_path: Path, qtbot: QtBot
) -> None:
    chats = [{"title": "From elsewhere", "messages": [{"id": 3, "role": "user", "content": "Hi"}]}]
    path = tmp_path / "in.json"
    path.write_text(json.dumps({"format": "twofold-chats", "version": 1, "chats": chats}))
    files.import_from(path)
    model = ready_app.window.sidebar.model
    qtbot.waitUntil(lambda: model.rowCount() == 2)
    ready_app.window.sidebar.view.list.opened.emit(model.index(1))
    qtbot.waitUntil(lambda: len(ready_app.window.chat.messages) == 1)
    assert said == ["Chats added: 1."]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x00\x01", "holds no chats"),
        (b'{"chats": []}', "holds no chats"),
        (b'{"format": "twofold-chats", "version": 2, "chats": []}', "newer version"),
        (b'{"format": "twofold-chats", "chats": [{"messages": [{"id": 1}]}]}', "holds no chats"),
        (b'{"format": "twofold-chats", "chats": [{"title": "\\ud800"}]}', "holds no chats"),
    ],
)
def test_a_file_that_holds_no_chats_adds_nothing_and_says_so(
    content: bytes,
    words: str,
    files: ChatFiles,
    store: ChatStore,
    said: list[str],
    tmp_path: Path,
    qtbot: QtBot,
) -> None:
    path = tmp_path / "in.json"
    if b"format" not in content:
        content = content.replace(b"{", b'{"format": "other", ', 1)
    path.write_bytes(content)
    files.import_from(path)
    qtbot.waitUntil(lambda: bool(said))
    assert words in said[0]
    assert store.chats() == []


def test_what_a_file_says_wrongly_of_an_answer_is_left_out_and_its_words_stay(
    make_app: MakeApp, fake: FakeEngine, store: ChatStore, tmp_path: Path, qtbot: QtBot
) -> None:
    fake.be_ready()
    application = make_app()
    messages = [
        {"id": 1, "parent": 99, "role": "user", "content": "Q", "active_child": 7},
        {"id": 2, "parent": 1, "role": "assistant", "content": "A", "report": {"path": []}},
        {"id": 3, "parent": 3, "role": "user", "content": "alone", "failure": {"a": 1}},
    ]
    path = tmp_path / "in.json"
    data = {"format": "twofold-chats", "chats": [{"messages": messages, "active_root": 1}]}
    path.write_text(json.dumps(data))
    application.window.sidebar.files.import_from(path)
    qtbot.waitUntil(lambda: len(store.chats()) == 1)
    application.window.chat.open_chat(store.chats()[0].id)
    qtbot.waitUntil(lambda: len(application.window.chat.messages) == 2)
    shown = application.window.chat.messages
    assert [item.content for item in shown] == ["Q", "A"]
    assert shown[1].report is None and shown[0].versions == 2


def test_a_folder_that_cannot_be_written_is_said(
    files: ChatFiles, said: list[str], tmp_path: Path, qtbot: QtBot
) -> None:
    files.export_all(tmp_path / "missing" / "chats.json")
    qtbot.waitUntil(lambda: bool(said))
    assert "could not be written" in said[0]


def test_a_name_without_an_ending_gets_that_of_the_chosen_kind(
    files: ChatFiles,
    store: ChatStore,
    said: list[str],
    tmp_path: Path,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chat = store.create_chat("a/b: c")
    offered: list[str] = []

    def choose(_parent: object, _title: str, name: str, _kinds: str) -> tuple[str, str]:
        offered.append(name)
        return str(tmp_path / "mine"), JSON

    monkeypatch.setattr(QFileDialog, "getSaveFileName", choose)
    files.choose_export(chat, "a/b: c")
    qtbot.waitUntil(lambda: bool(said))
    assert offered == ["a_b_ c.md"] and (tmp_path / "mine.json").exists()
