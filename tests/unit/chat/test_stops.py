"""Stop strings end a text, and nothing of one is ever shown."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.chat.stops import StopFilter

letters = st.text(alphabet="ab", max_size=24)


def run(pieces: Sequence[str], stops: Sequence[str]) -> tuple[str, str | None]:
    stream = StopFilter(stops)
    text = "".join(stream.feed(piece) for piece in pieces)
    return text + stream.flush(), stream.found


def expected(text: str, stops: Sequence[str]) -> tuple[str, str | None]:
    """Reads letter by letter: the first that completes, the longest of several."""
    for end in range(1, len(text) + 1):
        complete = [stop for stop in stops if text[:end].endswith(stop)]
        if complete:
            stop = max(complete, key=len)
            return text[: end - len(stop)], stop
    return text, None


@given(st.lists(letters), st.lists(st.text(alphabet="ab", min_size=1, max_size=5), max_size=4))
def test_the_result_does_not_depend_on_the_pieces(pieces: list[str], stops: list[str]) -> None:
    assert run(pieces, stops) == expected("".join(pieces), stops)


@given(letters, st.lists(st.text(alphabet="ab", min_size=1, max_size=5), min_size=1, max_size=4))
def test_holds_back_only_what_may_become_a_stop_string(text: str, stops: list[str]) -> None:
    stream = StopFilter(stops)
    shown = stream.feed(text)
    if stream.found is None:
        held = text[len(shown) :]
        assert held == "" or any(stop.startswith(held) for stop in stops)


@pytest.mark.parametrize("width", range(1, 6))
def test_a_stop_string_over_pieces_is_found(width: int) -> None:
    text = "fine so far.\nUser: and more"
    pieces = [text[at : at + width] for at in range(0, len(text), width)]
    assert run(pieces, ["\nUser:"]) == ("fine so far.", "\nUser:")


def test_text_after_a_stop_string_is_dropped() -> None:
    stream = StopFilter(["END"])
    assert [stream.feed(piece) for piece in ("a EN", "D b", "c")] == ["a ", "", ""]
    assert stream.flush() == ""


def test_a_false_start_is_shown_at_the_end() -> None:
    assert run(["a EN"], ["END"]) == ("a EN", None)


def test_without_stop_strings_text_passes() -> None:
    assert run(["a", "b"], []) == ("ab", None)
