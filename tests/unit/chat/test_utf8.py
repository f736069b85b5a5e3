"""Characters come out whole however their bytes are cut."""

from hypothesis import given
from hypothesis import strategies as st

from engine.chat.utf8 import Utf8Stream


@given(st.text(), st.integers(1, 3))
def test_any_cut_gives_the_same_text(text: str, width: int) -> None:
    stream = Utf8Stream()
    data = text.encode()
    parts = [stream.feed(data[at : at + width]) for at in range(0, len(data), width)]
    assert "".join(parts) + stream.flush() == text
    assert "\N{REPLACEMENT CHARACTER}" in text or not any("\ufffd" in part for part in parts)


def test_an_emoji_over_four_pieces_waits_for_its_last_byte() -> None:
    stream = Utf8Stream()
    parts = [stream.feed(bytes([byte])) for byte in "🦉".encode()]
    assert parts == ["", "", "", "🦉"]


def test_an_unfinished_character_is_replaced_only_at_the_end() -> None:
    stream = Utf8Stream()
    assert stream.feed(b"a" + "🦉".encode()[:3]) == "a"
    assert stream.flush() == "\ufffd"


def test_bytes_that_are_no_utf8_do_not_stop_the_stream() -> None:
    stream = Utf8Stream()
    assert stream.feed(b"a\xffb") == "a\ufffdb"
