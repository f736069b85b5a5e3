"""Reasoning is told from the answer, however the tags are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.api.turn import AnswerText, ReasoningText
from engine.chat.reasoning import DEFAULT_TAGS, ReasoningParser, ReasoningTags

GPT_OSS = (
    "<|channel|>analysis<|message|>Two and two.<|end|>"
    "<|start|>assistant<|channel|>final<|message|>Four."
)


def split(text: str, width: int = 1, prompt: str = "") -> tuple[str, str]:
    """Reasoning and answer of `text`, fed in pieces of `width` characters."""
    parser = ReasoningParser(prompt)
    pieces = [text[at : at + width] for at in range(0, len(text), width)]
    events = [event for piece in pieces for event in parser.feed(piece)] + parser.flush()
    reasoning = "".join(event.text for event in events if isinstance(event, ReasoningText))
    answer = "".join(event.text for event in events if isinstance(event, AnswerText))
    return reasoning, answer


@pytest.mark.parametrize("width", [1, 2, 3, 5, 8, 13, 1000])
@pytest.mark.parametrize("tags", DEFAULT_TAGS, ids=lambda tags: tags.start)
def test_each_known_pair_of_tags_is_split(tags: ReasoningTags, width: int) -> None:
    text = f"{tags.start}\nHm, <b>.{tags.end}\n\nYes."
    assert split(text, width) == ("Hm, <b>.", "Yes.")


@pytest.mark.parametrize("width", [1, 4, 7, 1000])
def test_channel_markers_are_not_shown(width: int) -> None:
    assert split(GPT_OSS, width) == ("Two and two.", "Four.")
    assert split("<|channel|>final<|message|>Four.", width) == ("", "Four.")


@pytest.mark.parametrize("prompt", ["...assistant\n<think>", "...assistant\n<think>\n"])
def test_a_prompt_that_opens_reasoning_is_honoured(prompt: str) -> None:
    assert split("Hm.</think>Yes.", prompt=prompt) == ("Hm.", "Yes.")


def test_a_prompt_that_closes_reasoning_leaves_an_answer() -> None:
    assert split("Yes.", prompt="...assistant\n<think>\n\n</think>\n\n") == ("", "Yes.")


def test_reasoning_twice_in_a_row_is_all_reasoning() -> None:
    assert split("<think>a</think>\n<think>b</think>c") == ("ab", "c")


def test_a_tag_inside_an_answer_is_text() -> None:
    text = "Write <think> and </think>."
    assert split(text) == ("", text)


def test_empty_reasoning_gives_none() -> None:
    assert split("<think>\n\n</think>\n\nYes.") == ("", "Yes.")


def test_reasoning_that_never_ends_is_reasoning_to_its_last_letter() -> None:
    assert split("<think>Hm</thin") == ("Hm</thin", "")


@pytest.mark.parametrize("text", ["<thi", "  \n", "<", "<p>Hi</p>", "  code"])
def test_what_only_looks_like_a_tag_is_an_answer(text: str) -> None:
    assert split(text) == ("", text)


def test_an_answer_is_not_held_back() -> None:
    parser = ReasoningParser()
    assert parser.feed("Y") == [AnswerText(text="Y")]


@given(st.text(alphabet="<>/think \n", max_size=40), st.integers(1, 7))
def test_the_split_does_not_depend_on_the_pieces(text: str, width: int) -> None:
    assert split(text, width) == split(text, 1000)


@given(st.text(max_size=40), st.integers(1, 7))
def test_without_tags_nothing_is_lost(text: str, width: int) -> None:
    if "<" not in text and "[" not in text:
        assert split(text, width) == ("", text)
