"""Fills sentences with data: as `format` does, and `{bytes:size}` or `{bytes:memory}` in the unit
that suits. All sizes that a person reads are written here. The program is called by its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import Formatter
from typing import Any

from engine.program import called

Units = Sequence[tuple[str, float]]

DECIMAL: Units = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
BINARY: Units = (("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10))


def size(nbytes: float, units: Units = DECIMAL) -> str:
    """As drives and download pages count: 14.2 GB. Other `units` are given largest first."""
    for unit, scale in units:
        if nbytes >= scale:
            value = nbytes / scale
            return f"{value:,.{1 if value < 100 else 0}f} {unit}"
    return f"{nbytes:.0f} B"


def memory(nbytes: float) -> str:
    """In the units in which memory is built and sold: a card of 24 GB holds 24 * 2^30 bytes."""
    return size(nbytes, BINARY)


class _Sentences(Formatter):
    def format_field(self, value: Any, format_spec: str) -> Any:
        written = {"size": size, "memory": memory}.get(format_spec)
        return written(value) if written else super().format_field(value, format_spec)


def fill(template: str, data: Mapping[str, Any]) -> str:
    """Raises KeyError, IndexError or ValueError where the data is not what the template wants."""
    return _Sentences().vformat(called(template), (), data)
