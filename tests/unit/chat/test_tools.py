"""Calls of tools are found in an answer, however it is cut into pieces; what is none stays text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.api.turn import AnswerText, ToolCallMade
from engine.chat.tools import FORMS, ToolStream, form_of

HERMES, TAGS = "<tool_call>", "<tool_call> and <function="
TOOLS = (
    {
        "type": "function",
        "function": {
            "name": "look",
            "parameters": {"properties": {"at": {"type": "string"}, "far": {"type": "integer"}}},
        },
    },
)


def read(template: str, text: str, size: int = 1000, tools: Any = TOOLS) -> tuple[str, list[Any]]:
    """The answer's text and its calls, as names with arguments."""
    form = form_of(template)
    assert form is not None
    stream = ToolStream(form, tools)
    events: list[AnswerText | ToolCallMade] = []
    for start in range(0, len(text), size):
        events += stream.feed(text[start : start + size])
    events += stream.flush()
    shown = "".join(event.text for event in events if isinstance(event, AnswerText))
    calls = [event.call for event in events if isinstance(event, ToolCallMade)]
    return shown, [(call.name, json.loads(call.arguments)) for call in calls]


JSON_CALL = '<tool_call>\n{"name": "look", "arguments": {"at": "sea"}}\n</tool_call>'
TAG_CALL = (
    "<tool_call>\n<function=look>\n<parameter=at>\n5 miles\n</parameter>\n"
    "<parameter=far>\n12\n</parameter>\n</function>\n</tool_call>"
)
CASES = {
    "qwen": (HERMES, f"Wait.\n{JSON_CALL}\n{JSON_CALL}", "Wait.", [("look", {"at": "sea"})] * 2),
    "qwen with tags": (TAGS, TAG_CALL, "", [("look", {"at": "5 miles", "far": 12})]),
    "mistral": (
        "[TOOL_CALLS]",
        '[TOOL_CALLS] [{"name": "look", "arguments": {"at": "sea"}}]',
        "",
        [("look", {"at": "sea"})],
    ),
    "mistral, newer": (
        "[TOOL_CALLS]", '[TOOL_CALLS]look[ARGS]{"at": "sea"}', "", [("look", {"at": "sea"})],
    ),
    "llama": (
        "<|python_tag|>", '{"name": "look", "parameters": {"at": "sea"}}', "",
        [("look", {"at": "sea"})],
    ),
}  # fmt: skip


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("case", CASES)
def test_calls_are_found_in_each_form_and_cut(case: str, size: int) -> None:
    template, text, shown, calls = CASES[case]
    assert read(template, text, size) == (shown, calls)


@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize(
    "text",
    [
        "Just text, with < and <tool and <tool_cal.",
        "<tool_call>not JSON</tool_call>",
        '<tool_call>{"name": 5, "arguments": {}}</tool_call>',
        "<tool_call>[1, 2]</tool_call> and more",
        "<tool_call>never closed",
        "before \n <tool_call>not JSON</tool_call>\n after",
        "  spaces kept  ",
    ],
)
def test_what_is_no_call_stays_text(text: str, size: int) -> None:
    assert read(HERMES, text, size) == (text, [])


def test_text_is_not_held_back_without_need() -> None:
    form = form_of(HERMES)
    assert form is not None
    stream = ToolStream(form, TOOLS)
    assert stream.feed("Hello") == [AnswerText(text="Hello")]
    assert stream.feed(" <b>") == [AnswerText(text=" <b>")]
    assert stream.feed(" <tool_") == []


def test_an_answer_that_only_begins_like_llamas_call_later_is_text() -> None:
    text = 'It is {"name": "x"}'
    assert read("<|python_tag|>", text, 2) == (text, [])


def test_a_template_without_a_known_form_has_none() -> None:
    assert form_of("{{ messages }}") is None


@given(st.text(alphabet="<>/tool_calfunctionparameter=\n {}\"':,[]ARGS", max_size=80), st.data())
def test_no_text_is_lost_or_raises(text: str, data: st.DataObject) -> None:
    form = data.draw(st.sampled_from(FORMS))
    stream = ToolStream(form, [{"function": {"parameters": 3}}, {"x": 1}])
    events = [event for letter in text for event in stream.feed(letter)] + stream.flush()
    if not any(isinstance(event, ToolCallMade) for event in events):
        assert "".join(e.text for e in events if isinstance(e, AnswerText)) == text
