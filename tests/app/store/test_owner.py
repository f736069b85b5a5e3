"""One thread owns the store; results and errors come back through `deliver`."""

from __future__ import annotations

import threading
from pathlib import Path

from app.store.errors import StoreUnwritable
from app.store.owner import StoreOwner


def test_work_is_done_in_order_on_one_thread_and_finished_before_closing(tmp_path: Path) -> None:
    owner = StoreOwner(tmp_path / "chats.db", lambda callback: callback())
    threads: list[str] = []
    titles: list[str] = []
    for number in range(20):
        owner.ask(lambda store, number=number: store.create_chat(str(number)))
        owner.ask(lambda _: threads.append(threading.current_thread().name))
    owner.ask(lambda store: [row.title for row in store.chats()], titles.extend)
    owner.close()
    assert sorted(titles, key=int) == [str(number) for number in range(20)]
    assert set(threads) == {"chat-store"}


def test_a_store_that_cannot_be_opened_answers_every_question_with_the_reason(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("in the way")
    owner = StoreOwner(tmp_path / "file" / "chats.db", lambda callback: callback())
    told: list[BaseException] = []
    owner.on_error = told.append
    owner.ask(lambda store: store.chats(), lambda _: told.append(AssertionError()))
    asked: list[BaseException] = []
    owner.ask(lambda store: store.chats(), None, asked.append)
    owner.close()
    assert [type(error) for error in told + asked] == [StoreUnwritable, StoreUnwritable]
