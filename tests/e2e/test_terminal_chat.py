"""`twofold chat` as a person meets it, with the demo model."""

from __future__ import annotations

import pytest

from engine import assets
from tests.support.terminal import Terminal

pytestmark = pytest.mark.slow


def test_one_prompt_gives_the_answer_alone_on_stdout() -> None:
    with Terminal(
        "chat", "--temperature", "0", "--path", "odp", "What is the capital of France?"
    ) as chat:
        assert chat.finish(120) == 0
        assert "Paris" in chat.out
        assert "first token" not in chat.out
        assert "odp (You chose the path odp)" in chat.err.replace("\n", " ")


def test_a_conversation_reuses_what_was_read() -> None:
    with Terminal("chat", "--temperature", "0", "--max-tokens", "24", "--path", "resident") as chat:
        chat.type("My name is Ada. Remember that.")
        chat.wait_for(lambda: chat.err.count("first token") == 1, 120)
        chat.type("Which name did I tell you?")
        chat.wait_for(lambda: chat.err.count("first token") == 2, 120)
        assert chat.finish(30) == 0
        reused = chat.err.replace("\n", " ").rsplit("tokens read, ", 1)[1].split(" ")[0]
        assert int(reused) > 20


@pytest.mark.parametrize("path", ["decoder", "resident", "odp"])
def test_ctrl_c_stops_the_reading_within_a_second_and_the_session_goes_on(path: str) -> None:
    document = assets.asset("long_document.md").read_text(encoding="utf-8")
    with Terminal("chat", "--temperature", "0", "--max-tokens", "8", "--path", path) as chat:
        chat.type(document.replace("\n", " "))
        chat.wait_for(lambda: f"tokens ({path})" in chat.err, 120)
        chat.interrupt()
        took = chat.wait_for(lambda: "cancelled" in chat.err, 10)
        assert took < 1
        chat.type("Say hello.")
        chat.wait_for(lambda: chat.err.count("first token") == 1, 120)
        assert chat.finish(30) == 0


def test_ctrl_c_stops_the_answer_within_a_second_and_the_session_goes_on() -> None:
    with Terminal("chat", "--temperature", "0", "--path", "decoder") as chat:
        chat.type("Count from one to five hundred in words.")
        chat.wait_for(lambda: len(chat.out) > 20, 120)
        chat.interrupt()
        took = chat.wait_for(lambda: "cancelled" in chat.err, 10)
        assert took < 1
        chat.type("/new")
        chat.type("Say hello in five words.")
        chat.wait_for(lambda: chat.err.count("first token") == 2, 120)
        assert chat.finish(30) == 0


def test_ctrl_c_at_the_prompt_changes_nothing() -> None:
    with Terminal("chat", "--temperature", "0", "--max-tokens", "8") as chat:
        chat.wait_for(lambda: "> " in chat.err, 120)
        chat.interrupt()
        chat.type("What is the capital of France?")
        chat.wait_for(lambda: "first token" in chat.err, 120)
        assert chat.finish(30) == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-m", "missing.gguf", "hello"], "missing.gguf"),
        (["-f", "missing.txt"], "missing.txt cannot be used as a prompt"),
        (["--path", "sideways", "hello"], "sideways is not one of auto"),
    ],
)
def test_bad_arguments_get_one_sentence(arguments: list[str], sentence: str) -> None:
    with Terminal("chat", *arguments) as chat:
        assert chat.finish(60) != 0
        assert sentence in " ".join(chat.err.replace("\u2502", " ").split())
        assert "Traceback" not in chat.err
        assert chat.out == ""
