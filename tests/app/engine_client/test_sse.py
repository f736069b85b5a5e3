"""Events come out whole, however the bytes arrive."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from app.engine_client.sse import EventParser

STREAM = "data: 한글 one\n\n: comment\n\ndata: a\ndata: b\n\nevent: x\r\ndata: {}\r\n\r\n".encode()


@given(st.lists(st.integers(min_value=0, max_value=len(STREAM))))
def test_any_cuts_give_the_same_events(cuts: list[int]) -> None:
    parser = EventParser()
    edges = [0, *sorted(cuts), len(STREAM)]
    events = [event for start, end in pairwise(edges) for event in parser.feed(STREAM[start:end])]
    assert events == ["한글 one", "a\nb", "{}"]
