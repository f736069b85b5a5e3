"""A conversation in the window, from the first word to what is stored of it."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QInputMethodEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.chat.chat_controller import ChatController
from app.chat.rows import Action, Foot, Problem, Row
from app.main import Application
from app.store.chats import ChatStore
from app.store.records import Attachment, Chat, ChatSettings
from engine.api.engine import EngineState
from engine.api.failure import Failure
from tests.app.conftest import MakeApp
from tests.support.fake_engine import (
    Drop,
    FakeEngine,
    Pause,
    Thought,
    WaitForStop,
    progress,
)


def send(chat: ChatController, text: str) -> None:
    chat.composer.view.text.setPlainText(text)
    chat.composer.view.sent.emit()


def answered(chat: ChatController) -> bool:
    """Whether an answer stands there and none is being written."""
    return (
        chat.writer is None
        and bool(chat.messages)
        and chat.messages[-1].role == "assistant"
        and chat.messages[-1].status != "streaming"
    )


def ask(qtbot: QtBot, chat: ChatController, text: str) -> None:
    before = len(chat.messages)
    send(chat, text)
    qtbot.waitUntil(lambda: len(chat.messages) > before and answered(chat), timeout=10_000)


def row_of(chat: ChatController, kind: str) -> Row:
    rows = [row for row in chat.transcript.view.rows if row.kind == kind]
    assert rows, f"no {kind} row"
    return rows[-1]


def act(chat: ChatController, action: Action, message: int) -> None:
    chat.transcript.acted.emit(action, message)


def the_chat(store: ChatStore) -> Chat:
    chat = store.chat(store.chats()[0].id)
    assert chat is not None
    return chat


def shown_words(application: Application) -> str:
    rows = application.window.chat.transcript.view.rows
    return "\n".join(str(row.data) for row in rows)


def test_a_question_and_its_answer_are_shown_and_stored(
    ready_app: Application, fake: FakeEngine, store: ChatStore, qtbot: QtBot
) -> None:
    fake.script = lambda _: [Thought("Let me think."), "A **bold**", " answer."]
    chat = ready_app.window.chat
    ask(qtbot, chat, "What is it?")
    stored = the_chat(store)
    assert [message.content for message in stored.messages] == ["What is it?", "A **bold** answer."]
    assert stored.messages[1].reasoning == "Let me think."
    assert stored.row.title == "What is it?"
    qtbot.waitUntil(lambda: "<strong>bold</strong> answer." in shown_words(ready_app))
    foot: Foot = row_of(chat, "foot").data
    assert foot.report is not None and foot.report["path"] == "odp"


def test_the_request_carries_the_conversation_its_settings_and_files(
    ready_app: Application, fake: FakeEngine, qtbot: QtBot, tmp_path: Path
) -> None:
    chat = ready_app.window.chat
    chat.view.settings_panel.changed.emit(
        type(chat._settings)("Be brief.", {"temperature": 0.0}, "auto")  # pyright: ignore[reportPrivateUsage]
    )
    chat.view.path.setCurrentIndex(3)
    chat.view.path.activated.emit(3)
    file = tmp_path / "notes.txt"
    file.write_text("the facts")
    chat.composer.attach([file])
    qtbot.waitUntil(lambda: bool(chat.composer.draft.attachments))
    ask(qtbot, chat, "Read it")
    ask(qtbot, chat, "And again")
    first, second = fake.asked
    assert first["temperature"] == 0.0
    assert first["twofold"] == {"path": "odp", "continue_last": False, "events": True}
    assert first["messages"][0] == {"role": "system", "content": "Be brief."}
    assert '<file name="notes.txt">\nthe facts\n</file>' in first["messages"][1]["content"]
    assert [item["role"] for item in second["messages"]] == ["system", "user", "assistant", "user"]


def test_stop_works_while_the_prompt_is_read(
    ready_app: Application, fake: FakeEngine, store: ChatStore, qtbot: QtBot
) -> None:
    fake.script = lambda _: [progress(), WaitForStop()]
    chat = ready_app.window.chat
    send(chat, "A long document")
    qtbot.waitUntil(
        lambda: any(
            row.kind == "reading" and row.data is not None for row in chat.transcript.view.rows
        )
    )
    reading = row_of(chat, "reading").data
    assert reading.tokens == "100 of 400 tokens"
    assert reading.details == "block 2 of 4 · 2.0 GB/s · about 3 s"
    qtbot.mouseClick(chat.composer.view.send, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: answered(chat), timeout=3000)
    report = the_chat(store).messages[1].report
    assert report is not None and report["stop_reason"] == "cancelled"


def test_stop_keeps_what_was_written_even_from_an_engine_that_does_not_answer(
    ready_app: Application, fake: FakeEngine, store: ChatStore, qtbot: QtBot
) -> None:
    fake.script = lambda _: ["So far", Pause(3.0), " and more"]
    chat = ready_app.window.chat
    send(chat, "Hello")
    qtbot.waitUntil(lambda: chat.writer is not None and chat.writer.content == "So far")
    chat.stop()
    qtbot.waitUntil(lambda: answered(chat), timeout=2500)
    message = the_chat(store).messages[1]
    assert (message.content, message.status) == ("So far", "interrupted")


def test_an_engine_that_dies_costs_one_card_and_restarts_on_click(
    ready_app: Application, fake: FakeEngine, store: ChatStore, qtbot: QtBot
) -> None:
    fake.script = lambda _: ["Half an ans", WaitForStop()]
    chat = ready_app.window.chat
    send(chat, "Hello")
    qtbot.waitUntil(lambda: chat.writer is not None and chat.writer.content == "Half an ans")
    os.kill(ready_app.engine.pid, signal.SIGKILL)
    qtbot.waitUntil(lambda: answered(chat), timeout=5000)
    message = the_chat(store).messages[1]
    assert (message.content, message.status) == ("Half an ans", "failed")
    qtbot.waitUntil(lambda: any(row.kind == "error" for row in chat.transcript.view.rows))
    problem: Problem = row_of(chat, "error").data
    assert problem.help == "restart"
    assert "ended unexpectedly (signal 9)" in problem.sentence
    fake.script = lambda _: ["A whole answer"]
    act(chat, "help", message.id)
    qtbot.waitUntil(
        lambda: answered(chat) and chat.messages[-1].content == "A whole answer", timeout=10_000
    )
    assert chat.messages[-1].versions == 2


def test_a_connection_that_breaks_before_the_death_is_known_tells_of_the_death(
    ready_app: Application, fake: FakeEngine, qtbot: QtBot
) -> None:
    fake.script = lambda _: ["Half", Pause(0.1), Drop()]
    chat = ready_app.window.chat
    send(chat, "Hello")
    qtbot.waitUntil(lambda: chat.writer is not None and chat.writer.content == "Half")
    qtbot.wait(300)
    os.kill(ready_app.engine.pid, signal.SIGKILL)
    qtbot.waitUntil(lambda: answered(chat), timeout=5000)
    failed = chat.messages[-1].failure
    assert failed is not None and failed["code"] == "window.engine_died"


def test_after_a_restart_the_answer_waits_for_the_model_to_be_loaded(
    ready_app: Application, fake: FakeEngine, qtbot: QtBot
) -> None:
    chat = ready_app.window.chat
    ready_app.preferences.values.model = "fake.gguf"
    loads_before_asked: list[int] = []

    def script(_: object) -> Sequence[str | WaitForStop]:
        if len(fake.asked) == 1:
            return [WaitForStop()]
        loads_before_asked.append(len(fake.loads))
        return ["Here again."]

    fake.script = script
    send(chat, "Hello")
    qtbot.waitUntil(lambda: len(fake.asked) == 1)
    fake.state = EngineState(status="empty")
    os.kill(ready_app.engine.pid, signal.SIGKILL)
    qtbot.waitUntil(lambda: answered(chat), timeout=5000)
    act(chat, "help", chat.messages[-1].id)
    qtbot.waitUntil(
        lambda: answered(chat) and chat.messages[-1].content == "Here again.", timeout=10_000
    )
    assert loads_before_asked == [1]


def test_every_failure_of_the_engine_is_a_card_with_one_button(
    ready_app: Application, fake: FakeEngine, qtbot: QtBot
) -> None:
    chat = ready_app.window.chat
    cases = {
        "memory.out": "try_again",
        "worker.aborted": "restart",
        "engine.nothing_loaded": "choose_model",
        "something.new": "try_again",
    }
    for code, expected in cases.items():
        fake.script = lambda _, code=code: [
            Failure(code=code, sentence=f"What {code} means.", log=("last words",))
        ]
        ask(qtbot, chat, "Hello")
        qtbot.waitUntil(
            lambda code=code: any(
                row.kind == "error" and row.data.code == code for row in chat.transcript.view.rows
            )
        )
        problem: Problem = row_of(chat, "error").data
        assert (problem.code, problem.help) == (code, expected)
        assert problem.sentence
        assert "last words" in problem.details


def test_a_connection_that_breaks_is_said_and_the_text_is_kept(
    ready_app: Application, fake: FakeEngine, store: ChatStore, qtbot: QtBot
) -> None:
    fake.script = lambda _: ["Some text", Pause(0.1), Drop()]
    ask(qtbot, ready_app.window.chat, "Hello")
    message = the_chat(store).messages[1]
    assert message.content == "Some text"
    assert message.failure is not None and message.failure["code"].startswith("window.engine_")


def test_an_overflow_offers_to_leave_out_the_oldest_and_says_so(
    ready_app: Application, fake: FakeEngine, qtbot: QtBot
) -> None:
    chat = ready_app.window.chat
    for word in ("First", "Second"):
        ask(qtbot, chat, word * 50)
    fake.refuse = Failure(
        code="chat.context_overflow",
        sentence="Too long.",
        data={"needed": 9000, "available": 8000, "prompt": 8744, "reserved": 256},
    )
    ask(qtbot, chat, "Third" * 50)
    qtbot.waitUntil(lambda: any(row.kind == "error" for row in chat.transcript.view.rows))
    assert row_of(chat, "error").data.help == "shorten"
    fake.refuse = None
    act(chat, "help", chat.messages[-1].id)
    qtbot.waitUntil(lambda: answered(chat) and chat.messages[-1].failure is None, timeout=5000)
    sent = [message["content"][:5] for message in fake.asked[-1]["messages"]]
    assert sent == ["Secon", "Hello", "Third"]
    qtbot.waitUntil(lambda: "first 2 messages" in str(row_of(chat, "notice").data))


def test_answers_and_questions_have_versions_with_arrows_between(
    ready_app: Application, fake: FakeEngine, qtbot: QtBot
) -> None:
    chat = ready_app.window.chat
    fake.script = lambda _: ["one"]
    ask(qtbot, chat, "Question")
    fake.script = lambda _: ["two"]
    act(chat, "regenerate", chat.messages[1].id)
    qtbot.waitUntil(lambda: answered(chat) and chat.messages[1].content == "two")
    assert (chat.messages[1].version, chat.messages[1].versions) == (2, 2)
    act(chat, "older", chat.messages[1].id)
    qtbot.waitUntil(lambda: chat.messages[1].content == "one")
    fake.script = lambda _: ["three"]
    act(chat, "edit", chat.messages[0].id)
    assert chat.composer.draft.text == "Question"
    ask_edited = chat.composer.view
    ask_edited.text.setPlainText("Other question")
    ask_edited.sent.emit()
    qtbot.waitUntil(lambda: answered(chat) and chat.messages[-1].content == "three")
    assert chat.messages[0].content == "Other question"
    assert chat.messages[0].versions == 2
    act(chat, "older", chat.messages[0].id)
    qtbot.waitUntil(lambda: [m.content for m in chat.messages] == ["Question", "one"])


def test_an_answer_is_continued_in_place(
    ready_app: Application, fake: FakeEngine, qtbot: QtBot
) -> None:
    chat = ready_app.window.chat
    fake.script = lambda _: ["Once upon"]
    ask(qtbot, chat, "Tell")
    fake.script = lambda _: [" a time"]
    act(chat, "continue", chat.messages[1].id)
    qtbot.waitUntil(lambda: answered(chat) and chat.messages[1].content == "Once upon a time")
    assert fake.asked[-1]["twofold"]["continue_last"] is True
    assert fake.asked[-1]["messages"][-1]["content"] == "Once upon"


def test_a_deleted_message_comes_back_with_undo(ready_app: Application, qtbot: QtBot) -> None:
    chat = ready_app.window.chat
    ask(qtbot, chat, "One")
    ask(qtbot, chat, "Two")
    act(chat, "delete", chat.messages[2].id)
    qtbot.waitUntil(lambda: len(chat.messages) == 2)
    toast = ready_app.window._toast  # pyright: ignore[reportPrivateUsage]
    qtbot.waitUntil(toast.isVisible)
    toast._act()  # pyright: ignore[reportPrivateUsage]
    qtbot.waitUntil(lambda: len(chat.messages) == 4)


def test_an_answer_goes_on_while_another_chat_is_open(
    ready_app: Application, fake: FakeEngine, store: ChatStore, qtbot: QtBot
) -> None:
    chat = ready_app.window.chat
    fake.script = lambda _: ["begun", Pause(0.4), " and ended"]
    send(chat, "Slow one")
    qtbot.waitUntil(lambda: chat.writer is not None and bool(chat.writer.content))
    first = chat.chat
    assert first is not None
    chat.new_chat()
    assert not chat.messages
    qtbot.waitUntil(lambda: the_chat(store).messages[1].status == "done", timeout=5000)
    assert the_chat(store).messages[1].content == "begun and ended"
    chat.open_chat(first)
    qtbot.waitUntil(lambda: "begun and ended" in shown_words(ready_app))


def test_each_chat_keeps_its_draft(ready_app: Application, store: ChatStore, qtbot: QtBot) -> None:
    chat = ready_app.window.chat
    ask(qtbot, chat, "Hello")
    first = chat.chat
    assert first is not None
    chat.composer.view.text.setPlainText("unsent words")
    chat.new_chat()
    assert chat.composer.draft.text == ""
    chat.composer.view.text.setPlainText("for a new one")
    chat.open_chat(first)
    qtbot.waitUntil(lambda: chat.composer.draft.text == "unsent words")
    qtbot.waitUntil(lambda: store.draft(None).text == "for a new one")


def test_a_question_waits_for_an_engine_that_still_starts(
    make_app: MakeApp, fake: FakeEngine, qtbot: QtBot
) -> None:
    application = make_app()
    chat = application.window.chat
    send(chat, "Early")
    qtbot.waitUntil(lambda: chat.writer is not None)
    qtbot.wait(50)
    fake.be_ready()
    qtbot.waitUntil(lambda: answered(chat), timeout=10_000)
    assert chat.messages[-1].content == "Hello."


def test_enter_belongs_to_the_input_method_while_a_syllable_is_composed(
    ready_app: Application, qtbot: QtBot
) -> None:
    chat = ready_app.window.chat
    text = chat.composer.view.text
    text.setFocus()
    QApplication.sendEvent(text, QInputMethodEvent("하", []))
    qtbot.keyClick(text, Qt.Key.Key_Return)
    assert chat.writer is None and not chat.messages
    done = QInputMethodEvent("", [])
    done.setCommitString("하")
    QApplication.sendEvent(text, done)
    assert "하" in text.toPlainText()
    qtbot.keyClick(text, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: answered(chat))
    assert chat.messages[0].content.strip() == "하"


def test_a_message_that_will_not_fit_is_said_before_it_is_sent(
    ready_app: Application, qtbot: QtBot
) -> None:
    chat = ready_app.window.chat
    chat.composer.view.text.setPlainText("word " * 10_000)
    qtbot.waitUntil(lambda: "12,500 tokens" in chat.composer.view.tokens.text())
    assert "4,564 more than the context still holds" in chat.composer.view.tokens.text()


def test_the_meter_shows_what_the_report_or_else_the_engine_counts(
    ready_app: Application, store: ChatStore, qtbot: QtBot
) -> None:
    chat = ready_app.window.chat
    meter = chat.view.context
    ask(qtbot, chat, "Hello")
    assert "51 of 8,192" in meter.toolTip(), "50 of the prompt and one of the answer"
    files = [Attachment("a.txt", "x" * 4000)]
    other = store.create_chat("From a file")
    store.add_message(other, "user", "Read this", parent=None, attachments=files)
    chat.open_chat(other)
    qtbot.waitUntil(lambda: "1,0" in meter.toolTip(), timeout=5000)
    chat.view.settings_panel.changed.emit(ChatSettings(system_prompt="y" * 4000))
    qtbot.waitUntil(lambda: "2,0" in meter.toolTip(), timeout=5000)
    chat.composer.view.text.setPlainText("z" * 4000)
    qtbot.waitUntil(lambda: "3,0" in meter.toolTip(), timeout=5000)


def test_a_restart_shows_everything_again(
    make_app: MakeApp, fake: FakeEngine, qtbot: QtBot
) -> None:
    fake.be_ready()
    first = make_app()
    qtbot.waitUntil(lambda: first.engine.state.status == "ready", timeout=10_000)
    ask(qtbot, first.window.chat, "Remember me")
    first.window.close()
    second = make_app()
    qtbot.waitUntil(lambda: second.window.sidebar.model.rowCount() > 1, timeout=5000)
    sidebar = second.window.sidebar
    sidebar.view.list.opened.emit(sidebar.model.index(1))
    qtbot.waitUntil(lambda: "Hello." in shown_words(second), timeout=5000)


def test_file_with_no_text_is_refused_with_a_sentence(
    ready_app: Application, qtbot: QtBot, tmp_path: Path
) -> None:
    chat = ready_app.window.chat
    file = tmp_path / "picture.png"
    file.write_bytes(b"\x89PNG\0\0")
    chat.composer.attach([file])
    toast = ready_app.window._toast  # pyright: ignore[reportPrivateUsage]
    qtbot.waitUntil(toast.isVisible)
    assert "picture.png is not a text file" in toast._label.text()  # pyright: ignore[reportPrivateUsage]
    assert chat.composer.draft.attachments == ()
