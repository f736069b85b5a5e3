"""Two builds are compared file by file."""

from __future__ import annotations

from tests.unit.packaging.scripts import script


def test_what_only_one_has_and_what_differs_is_named() -> None:
    one = {"a": "1", "b": "2", "c": "3"}
    other = {"a": "1", "b": "0", "d": "4"}
    assert script("compare").differences(one, other) == ["b", "c", "d"]
    assert script("compare").differences(one, dict(one)) == []
