"""Sentences show bytes in the unit that suits, and everything else as it is."""

from __future__ import annotations

import pytest

from engine.api.sentences import fill, memory, size


@pytest.mark.parametrize(
    ("nbytes", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.0 kB"),
        (77_012_992, "77.0 MB"),
        (14_200_000_000, "14.2 GB"),
        (250_000_000_000, "250 GB"),
        (2_000_000_000_000, "2.0 TB"),
    ],
)
def test_a_size_has_sensible_digits(nbytes: int, shown: str) -> None:
    assert size(nbytes) == shown


def test_memory_is_written_in_the_units_it_is_sold_in() -> None:
    assert memory(24 << 30) == "24.0 GB" and memory(300 << 20) == "300 MB"
    assert fill("{free:memory}", {"free": 8 << 30}) == "8.0 GB"


def test_only_sizes_are_shown_as_such() -> None:
    filled = fill(
        "{path}: {n:size}, {n}, {r:.1f}, {w!r}", {"path": "a", "n": 1000, "r": 2, "w": "x"}
    )
    assert filled == "a: 1.0 kB, 1000, 2.0, 'x'"


def test_a_missing_fact_is_an_error() -> None:
    with pytest.raises(KeyError):
        fill("{free:size}", {})
