"""Fills sentences with data: as `format` does, and `{bytes:size}` in the unit that suits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import Formatter
from typing import Any

Units = Sequence[tuple[str, float]]

DECIMAL: Units = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


def size(nbytes: float, units: Units = DECIMAL) -> str:
    """As drives and download pages count: 14.2 GB. Other `units` are given largest first."""
    for unit, scale in units:
        if nbytes >= scale:
            value = nbytes / scale
            return f"{value:,.{1 if value < 100 else 0}f} {unit}"
    return f"{nbytes:.0f} B"


class _Sentences(Formatter):
    def format_field(self, value: Any, format_spec: str) -> Any:
        return size(value) if format_spec == "size" else super().format_field(value, format_spec)


def fill(template: str, data: Mapping[str, Any]) -> str:
    """Raises KeyError, IndexError or ValueError where the data is not what the template wants."""
    return _Sentences().vformat(template, (), data)
