"""Serialises GGUF files byte by byte, so that tests can also write files that are wrong.

Nothing is checked here: every count, size, offset and type can be overridden.
Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

from engine.gguf.types import GgmlType, ValueType

_FORMATS = {
    ValueType.UINT8: "<B",
    ValueType.INT8: "<b",
    ValueType.UINT16: "<H",
    ValueType.INT16: "<h",
    ValueType.UINT32: "<I",
    ValueType.INT32: "<i",
    ValueType.FLOAT32: "<f",
    ValueType.BOOL: "<?",
    ValueType.UINT64: "<Q",
    ValueType.INT64: "<q",
    ValueType.FLOAT64: "<d",
}


def string(text: str | bytes) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(raw)) + raw


def scalar(type_: ValueType, value: Any) -> bytes:
    return string(value) if type_ is ValueType.STRING else struct.pack(_FORMATS[type_], value)


@dataclass
class Value:
    """A metadata value; `item` is set for arrays, `count` overrides an array's true length."""

    type: int
    value: Any
    item: int | None = None
    count: int | None = None

    def encode(self) -> bytes:
        if self.item is None:
            return struct.pack("<I", self.type) + scalar(ValueType(self.type), self.value)
        count = len(self.value) if self.count is None else self.count
        head = struct.pack("<IIQ", self.type, self.item, count)
        return head + b"".join(scalar(ValueType(self.item), one) for one in self.value)


def u32(value: int) -> Value:
    return Value(ValueType.UINT32, value)


def f32(value: float) -> Value:
    return Value(ValueType.FLOAT32, value)


def text(value: str | bytes) -> Value:
    return Value(ValueType.STRING, value)


def flag(value: bool) -> Value:
    return Value(ValueType.BOOL, value)


def array(item: ValueType, values: list[Any]) -> Value:
    return Value(ValueType.ARRAY, values, item)


@dataclass
class Tensor:
    """One tensor; `shape` has the fastest dimension first, as in the file."""

    name: str | bytes
    shape: tuple[int, ...]
    type: int
    data: bytes
    offset: int | None = None
    n_dims: int | None = None


@dataclass
class GgufBytes:
    """A whole file in memory; `encode()` lays it out."""

    metadata: list[tuple[str | bytes, Value]] = field(default_factory=list[Any])
    tensors: list[Tensor] = field(default_factory=list[Tensor])
    magic: bytes = b"GGUF"
    version: int = 3
    alignment: int = 32
    n_tensors: int | None = None
    n_metadata: int | None = None

    def encode(self) -> bytes:
        n_tensors = len(self.tensors) if self.n_tensors is None else self.n_tensors
        n_metadata = len(self.metadata) if self.n_metadata is None else self.n_metadata
        out = [self.magic, struct.pack("<IQQ", self.version, n_tensors, n_metadata)]
        out += [string(key) + value.encode() for key, value in self.metadata]
        position = 0
        body: list[bytes] = []
        for tensor in self.tensors:
            offset = position if tensor.offset is None else tensor.offset
            n_dims = len(tensor.shape) if tensor.n_dims is None else tensor.n_dims
            out.append(string(tensor.name) + struct.pack("<I", n_dims))
            out.append(struct.pack(f"<{len(tensor.shape)}Q", *tensor.shape))
            out.append(struct.pack("<IQ", tensor.type, offset))
            padded = tensor.data + bytes(-len(tensor.data) % self.alignment)
            body.append(padded)
            position += len(padded)
        head = b"".join(out)
        return head + bytes(-len(head) % self.alignment) + b"".join(body)


def f32_tensor(name: str, shape: tuple[int, ...], fill: float = 1.0) -> Tensor:
    count = 1
    for one in shape:
        count *= one
    return Tensor(name, shape, GgmlType.F32, struct.pack("<f", fill) * count)
