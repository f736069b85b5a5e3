"""A snippet shows the words around a match, without markdown's marks."""

from __future__ import annotations

import pytest

from app.store.words import snippet


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("This **contract** runs for `three` years", "This contract runs for three years"),
        ("# Title\n- one\n> contract", "Title one contract"),
        ("x " * 1000 + "the **contract** ends", "… " + "x " * 13 + "the contract ends"),
    ],
)
def test_marks_are_left_out_and_the_match_is_found(text: str, shown: str) -> None:
    snippet_shown, spans = snippet(text, "contract")
    assert snippet_shown == shown
    assert [snippet_shown[start:end] for start, end in spans] == ["contract"]
