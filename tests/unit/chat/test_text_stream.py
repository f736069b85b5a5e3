"""The whole pipeline: characters, stop strings and reasoning at once."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from engine.api.turn import AnswerText, ReasoningText
from engine.chat.text_stream import TextStream


def run(stream: TextStream, pieces: Sequence[bytes]) -> tuple[str, str]:
    events = [event for piece in pieces for event in stream.feed(piece)] + stream.flush()
    reasoning = "".join(event.text for event in events if isinstance(event, ReasoningText))
    return reasoning, "".join(event.text for event in events if isinstance(event, AnswerText))


def one_by_one(text: str) -> list[bytes]:
    return [bytes([byte]) for byte in text.encode()]


def test_all_three_at_once_byte_by_byte() -> None:
    stream = TextStream(stops=["🛑"])
    assert run(stream, one_by_one("<think>🤔 hm</think>\nJa, 🦉!🛑 more")) == ("🤔 hm", "Ja, 🦉!")
    assert stream.stopped_by == "🛑"


def test_the_users_stop_string_does_not_end_reasoning() -> None:
    stream = TextStream(stops=["\n\n"])
    assert run(stream, [b"<think>a\n\nb</think>c\n\nd"]) == ("a\n\nb", "c")


def test_the_templates_end_mark_ends_reasoning_too() -> None:
    stream = TextStream(template_stops=["<|im_end|>"])
    assert run(stream, one_by_one("<think>a<|im_end|>b")) == ("a", "")
    assert stream.stopped_by == "<|im_end|>"


def test_a_held_beginning_is_given_back_at_the_end() -> None:
    assert run(TextStream(stops=["END"]), one_by_one("the EN")) == ("", "the EN")


def test_a_cut_character_at_the_end_is_replaced() -> None:
    assert run(TextStream(), ["é".encode()[:1]]) == ("", "\ufffd")


@given(st.lists(st.binary(max_size=4)))
def test_any_bytes_give_the_text_of_all_of_them(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    if b"<" not in data and b"[" not in data:
        assert run(TextStream(), pieces) == ("", data.decode("utf-8", "replace"))
