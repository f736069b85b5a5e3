"""Typed, range-checked access to a model's metadata."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from engine.gguf.errors import BadKey, MissingKey
from engine.gguf.reader import GgufArray, Value
from engine.gguf.splits import GgufModel
from engine.gguf.types import ValueType


class Keys:
    """The keys of one model; every method raises `MissingKey` or `BadKey`.

    The library wants exact types (a count is a u32, a rate an f32), and so do these.
    A `default` makes a key optional.
    """

    def __init__(self, model: GgufModel, prefix: str = "") -> None:
        self._model = model
        self._prefix = prefix

    def has(self, key: str) -> bool:
        return self._prefix + key in self._model.metadata

    def refuse(self, key: str, expected: str, shown: Value | None = None) -> BadKey:
        """The error for a value that turned out wrong; to be raised."""
        value = self._model.metadata.get(self._prefix + key) if shown is None else shown
        return BadKey(
            self._model.path,
            key=self._prefix + key,
            value=_short(value),
            expected=expected,
        )

    def integer(self, key: str, low: int, high: int, default: int | None = None) -> int:
        value = self._typed(key, (ValueType.UINT32,), default is not None)
        if value is None:
            assert default is not None
            return default
        return self._in_range(key, value, low, high)

    def integers(self, key: str, count: int, low: int, high: int) -> tuple[int, ...] | None:
        """One value for each of `count` blocks (or parts), from an array or a single number;
        None if the key is not there."""
        value = self._typed(key, (ValueType.UINT32, ValueType.INT32, ValueType.ARRAY), True)
        if value is None:
            return None
        if not isinstance(value, GgufArray):
            return (self._in_range(key, value, low, high),) * count
        items = (ValueType.UINT32, ValueType.INT32, ValueType.BOOL)
        if value.item not in items or len(value) != count:
            raise self.refuse(key, f"a number, or {count} of them")
        return tuple(int(self._in_range(key, one, low, high)) for one in value.values)

    def number(self, key: str, default: float | None = None, *, above: float = -math.inf) -> float:
        value = self._typed(key, (ValueType.FLOAT32,), default is not None)
        if value is None:
            assert default is not None
            return default
        if not isinstance(value, float) or not math.isfinite(value) or value <= above:
            low = "a finite number" if above == -math.inf else f"a finite number above {above}"
            raise self.refuse(key, low)
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self._typed(key, (ValueType.BOOL,), True)
        return default if value is None else bool(value)

    def text(self, key: str, default: str | None = None) -> str:
        value = self._typed(key, (ValueType.STRING,), default is not None)
        if isinstance(value, str):
            return value
        assert default is not None
        return default

    def array(
        self, key: str, items: Sequence[ValueType], least: int, *, required: bool = True
    ) -> GgufArray | None:
        """An array of at least `least` values of one of the types `items`."""
        value = self._typed(key, (ValueType.ARRAY,), not required)
        if value is None:
            return None
        if not isinstance(value, GgufArray) or value.item not in items or len(value) < least:
            kinds = " or ".join(item.name.lower() for item in items)
            raise self.refuse(key, f"a list of {least} or more {kinds} values")
        return value

    def absent_or(self, key: str, allowed: Callable[[Value], bool], expected: str) -> None:
        value = self._model.metadata.get(self._prefix + key)
        if value is not None and not allowed(value):
            raise self.refuse(key, expected)

    def _typed(self, key: str, types: Sequence[ValueType], optional: bool) -> Value | None:
        name = self._prefix + key
        value = self._model.metadata.get(name)
        if value is None:
            if optional:
                return None
            raise MissingKey(self._model.path, key=name)
        if self._model.value_types[name] not in types:
            kinds = " or ".join(kind.name.lower() for kind in types)
            raise self.refuse(key, f"a value of type {kinds}")
        return value

    def _in_range(self, key: str, value: Value, low: int, high: int) -> int:
        if not isinstance(value, int) or not low <= value <= high:
            raise self.refuse(key, f"a number from {low} to {high}", value)
        return value


def _short(value: Value | None) -> int | float | str:
    if isinstance(value, int | float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, GgufArray):
        return f"a list of {len(value)} {value.item.name.lower()} values"
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."
