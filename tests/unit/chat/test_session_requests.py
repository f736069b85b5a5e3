"""Turns that ask for more: tools, a continued answer, plain text, grammars, log probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import pytest

from engine.api.messages import Message, ToolCall
from engine.api.sampling import SamplingSettings
from engine.api.turn import TokenSampled, TurnEvent
from engine.chat.session import (
    ChatSession,
    EmptyConversation,
    NothingToContinue,
    NoTools,
)
from tests.support.fake_model import CHATML, FakeModel

USER = Message(role="user", content="What is there?")
TOOL = {"type": "function", "function": {"name": "look", "parameters": {}}}
WITH_TOOLS = (
    "{% if tools %}<tool_call>{{ tools | tojson }}{% endif %}" + CHATML.replace(
        "message['content']",
        "message['content'] + (message.tool_calls | tojson if message.tool_calls else '')",
    )
)  # fmt: skip
THINKING = CHATML.replace("assistant\n", "assistant\n<think>\n")

Open = Callable[[FakeModel], ChatSession]


@pytest.fixture
def chat() -> Iterator[Open]:
    sessions: list[ChatSession] = []

    def open_session(model: FakeModel) -> ChatSession:
        sessions.append(ChatSession(model))
        return sessions[-1]

    yield open_session
    for session in sessions:
        session.close()


def nothing(_: TurnEvent) -> None:
    pass


def prompt(model: FakeModel) -> str:
    return b"".join(model.piece(token) for token in model.read[-1]).decode()


def test_tools_reach_the_template_and_calls_the_report(chat: Open) -> None:
    model = FakeModel(
        b'<tool_call>{"name": "look", "arguments": {"at": 1}}</tool_call>',
        chat_template=WITH_TOOLS,
    )
    report = chat(model).ask([USER], SamplingSettings(), "auto", nothing, tools=[TOOL])
    assert '"name": "look"' in prompt(model)
    assert report.message.content == ""
    assert [(call.name, call.arguments) for call in report.message.tool_calls] == [
        ("look", '{"at": 1}')
    ]


def test_an_earlier_call_is_shown_to_the_template_as_a_mapping(chat: Open) -> None:
    model = FakeModel(b"Sea.", chat_template=WITH_TOOLS)
    call = ToolCall(id="1", name="look", arguments='{"at": 1}')
    messages = [
        USER,
        Message(role="assistant", content="", tool_calls=(call,)),
        Message(role="tool", content="sea", tool_call_id="1"),
    ]
    chat(model).ask(messages, SamplingSettings(), "auto", nothing)
    assert '"arguments": {"at": 1}' in prompt(model)
    assert "<|im_start|>tool\nsea" in prompt(model)


def test_tools_that_the_template_ignores_are_refused(chat: Open) -> None:
    with pytest.raises(NoTools):
        chat(FakeModel()).ask([USER], SamplingSettings(), "auto", nothing, tools=[TOOL])


def test_a_continued_answer_goes_on_where_the_text_ended(chat: Open) -> None:
    model = FakeModel(b" house.")
    messages = [USER, Message(role="assistant", content="A light ")]
    report = chat(model).ask(messages, SamplingSettings(), "auto", nothing, continue_last=True)
    assert prompt(model).endswith("<|im_start|>assistant\nA light")
    assert report.message.content == " house."


@pytest.mark.parametrize("messages", [[USER], [USER, Message(role="assistant", content=" ")]])
def test_without_an_answer_there_is_nothing_to_continue(
    chat: Open, messages: list[Message]
) -> None:
    with pytest.raises(NothingToContinue):
        chat(FakeModel()).ask(messages, SamplingSettings(), "auto", nothing, continue_last=True)


def test_plain_text_is_continued_as_it_is(chat: Open) -> None:
    model = FakeModel(b" a time <think>")
    report = chat(model).complete("Once upon", SamplingSettings(), "auto", nothing)
    assert prompt(model) == "Once upon"
    assert (report.message.content, report.message.reasoning) == (" a time <think>", None)
    with pytest.raises(EmptyConversation):
        chat(FakeModel()).complete("", SamplingSettings(), "auto", nothing)


def test_a_grammar_holds_from_the_first_token(chat: Open) -> None:
    model = FakeModel(b"{}")
    chat(model).ask([USER], SamplingSettings(grammar="root"), "auto", nothing)
    assert (model.grammar, model.constrained_after) == ("root", b"")
    chat(model).ask([USER], SamplingSettings(), "auto", nothing)
    assert model.grammar is None


def test_a_grammar_waits_for_the_end_of_reasoning_that_the_prompt_opened(chat: Open) -> None:
    model = FakeModel(b"Hm.</think>{}", chat_template=THINKING)
    report = chat(model).ask([USER], SamplingSettings(grammar="root"), "auto", nothing)
    assert model.constrained_after == b"Hm.</think>"
    assert (report.message.reasoning, report.message.content) == ("Hm.", "{}")


def test_log_probabilities_are_those_of_the_sampled_tokens(chat: Open) -> None:
    events: list[TurnEvent] = []
    sampling = SamplingSettings(logprobs=2)
    chat(FakeModel(b"Hi")).ask([USER], sampling, "auto", events.append)
    sampled = [event for event in events if isinstance(event, TokenSampled)]
    assert [event.token.token for event in sampled] == ["H", "i"]
    first = sampled[0]
    # one token of 259 is a hundred times as likely as each of the others
    assert first.token.logprob == pytest.approx(math.log(100 / (100 + 258)))
    assert first.top[0] == first.token
    assert first.top[1].logprob == pytest.approx(math.log(1 / (100 + 258)))
