"""The event loop is never away for long, whatever is on the screen."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.chat.rows import Row
from app.main import Application
from app.store.chats import ChatStore
from tests.app.chat.test_chat import answered, send
from tests.app.conftest import MakeApp
from tests.support.fake_engine import FakeEngine, Pause
from tests.support.watchdog import Watchdog

# What a person notices. Machines that test share their cores, so one slip is forgiven: the best of
# three runs counts.
LONGEST_MS = 50.0
TRIES = 3

MARKDOWN = """## Part {number}

Some **bold** words, `code` and a [link](https://example.org/{number}) in a paragraph that is long
enough to be broken into lines when it is shown.

- one item
- another item

| a | b |
| --- | --- |
| {number} | 2 |

```python
def part_{number}(x):
    return x + {number}  # a comment
```
"""


def fill_chat(path: Path, messages: int) -> int:
    store = ChatStore(path)
    chat = store.create_chat("Long chat")
    parent: int | None = None
    for number in range(messages):
        role = "user" if number % 2 == 0 else "assistant"
        text = f"Question {number}?" if role == "user" else MARKDOWN.format(number=number)
        parent = store.add_message(chat, role, text, parent=parent)
    store.close()
    return chat


def rows_with(application: Application, words: str) -> list[Row]:
    rows = application.window.chat.transcript.view.rows
    return [row for row in rows if words in str(row.data)]


@pytest.mark.slow
def test_300_tokens_a_second_stream_into_a_chat_of_200_messages(
    make_app: MakeApp, fake: FakeEngine, tmp_path: Path, qtbot: QtBot, watchdog: Watchdog
) -> None:
    number = fill_chat(tmp_path / "chats.db", 200)
    fake.be_ready()
    application = make_app()
    chat = application.window.chat
    chat.open_chat(number)
    qtbot.waitUntil(
        lambda: bool(rows_with(application, "Part 1\n") or rows_with(application, "Part 1<")),
        timeout=20_000,
    )

    def stream(_: object) -> Iterator[str | Pause]:
        text = "\n".join(MARKDOWN.format(number=k) for k in range(12))
        started = time.perf_counter()
        for count, at in enumerate(range(0, 900 * 4, 4), start=1):
            yield text[at : at + 4]
            ahead = count / 300 - (time.perf_counter() - started)
            if ahead > 0:
                yield Pause(ahead)

    fake.script = stream
    longest: list[float] = []
    for _ in range(TRIES):
        watchdog.start()
        send(chat, "Go on")
        qtbot.waitUntil(lambda: chat.writer is not None)
        qtbot.waitUntil(lambda: answered(chat), timeout=30_000)
        longest.append(watchdog.stop())
        if longest[-1] < LONGEST_MS:
            break
    assert min(longest) < LONGEST_MS, longest


@pytest.mark.slow
def test_a_message_of_100_000_characters_is_shown(
    make_app: MakeApp, fake: FakeEngine, tmp_path: Path, qtbot: QtBot, watchdog: Watchdog
) -> None:
    store = ChatStore(tmp_path / "chats.db")
    chats: list[int] = []
    for _ in range(TRIES):
        chat = store.create_chat("Long message")
        first = store.add_message(chat, "user", "word " * 20_000, parent=None)
        text = "\n".join(MARKDOWN.format(number=k) for k in range(400))
        assert len(text) > 100_000
        store.add_message(chat, "assistant", text, parent=first)
        chats.append(chat)
    store.close()
    fake.be_ready()
    application = make_app()
    view = application.window.chat.transcript.view
    qtbot.wait(300)
    longest: list[float] = []
    for chat in chats:
        watchdog.start()
        application.window.chat.open_chat(chat)
        qtbot.waitUntil(lambda: bool(rows_with(application, "Part 399")), timeout=20_000)
        bar = view.verticalScrollBar()
        for step in range(20):
            bar.setValue(bar.maximum() * (19 - step) // 19)
            qtbot.wait(5)
        longest.append(watchdog.stop())
        if longest[-1] < LONGEST_MS:
            break
    assert min(longest) < LONGEST_MS, longest


@pytest.mark.slow
def test_a_history_of_20_000_chats_opens_and_is_searched(
    make_app: MakeApp, fake: FakeEngine, tmp_path: Path, qtbot: QtBot, watchdog: Watchdog
) -> None:
    ChatStore(tmp_path / "chats.db").close()
    now = time.time()
    with closing(sqlite3.connect(tmp_path / "chats.db")) as database, database:
        database.executemany(
            "INSERT INTO chats(title, created, updated) VALUES (?, ?, ?)",
            [(f"Chat {k} about topic {k % 97}", now, now - k * 4000) for k in range(20_000)],
        )
        database.executemany(
            "INSERT INTO messages(chat, role, content, created) VALUES (?, 'user', ?, ?)",
            [(k + 1, f"message {k} with the word needle{k % 500}", now) for k in range(20_000)],
        )
    fake.be_ready()
    application = make_app()
    sidebar = application.window.sidebar
    qtbot.waitUntil(lambda: sidebar.model.rowCount() > 20_000, timeout=20_000)
    longest: list[float] = []
    for number in range(TRIES):
        watchdog.start()
        sidebar.refresh()
        qtbot.wait(400)
        sidebar.view.search.setText(f"needle{number}")
        qtbot.waitUntil(lambda: 1 < sidebar.model.rowCount() < 1000, timeout=10_000)
        sidebar.view.search.setText("")
        qtbot.waitUntil(lambda: sidebar.model.rowCount() > 20_000, timeout=10_000)
        longest.append(watchdog.stop())
        if longest[-1] < LONGEST_MS:
            break
    assert min(longest) < LONGEST_MS, longest


def test_only_the_live_rows_change_while_an_answer_grows(
    ready_app: Application, fake: FakeEngine, qtbot: QtBot
) -> None:
    chat = ready_app.window.chat
    paragraph = "A settled paragraph of some length that is written first. " * 20
    fake.script = lambda _: [
        f"{paragraph}\n\n", f"{paragraph}\n\n", Pause(0.3), *["more words "] * 50, Pause(0.3),
    ]  # fmt: skip
    send(chat, "Go")
    qtbot.waitUntil(lambda: bool(rows_with(ready_app, "settled paragraph")))
    first = rows_with(ready_app, "settled paragraph")[0]
    qtbot.waitUntil(lambda: bool(rows_with(ready_app, "more words more words")))
    settled = [row for row in rows_with(ready_app, "settled") if "more words" not in str(row.data)]
    assert settled and settled[0] is first
    qtbot.waitUntil(lambda: answered(chat))


def test_reading_further_up_is_not_disturbed_by_new_text(
    make_app: MakeApp, fake: FakeEngine, tmp_path: Path, qtbot: QtBot
) -> None:
    number = fill_chat(tmp_path / "chats.db", 40)
    fake.be_ready()
    application = make_app()
    chat = application.window.chat
    view = chat.transcript.view
    chat.open_chat(number)
    qtbot.waitUntil(lambda: bool(rows_with(application, "Question 0?")), timeout=10_000)
    fake.script = lambda _: [*["words "] * 20, Pause(0.3), *["and more\n\n"] * 60, Pause(0.2)]
    send(chat, "Go")
    qtbot.waitUntil(lambda: bool(rows_with(application, "words words")))
    assert view.follows
    bar = view.verticalScrollBar()
    bar.setSliderPosition(bar.maximum() // 2)
    bar.triggerAction(bar.SliderAction.SliderPageStepSub)
    qtbot.wait(50)
    assert not view.follows
    place = bar.value()
    qtbot.waitUntil(lambda: answered(chat), timeout=5000)
    qtbot.wait(50)
    assert bar.value() == place
    view.scroll_to_end()
    assert view.follows and bar.value() == bar.maximum()
