"""Reads a GGUF file's header without trusting it, and refuses what no honest file holds.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (versions 2 and 3, little
endian). No count or size from the file is believed before it is checked against the bytes
that are left; nothing is mapped, so a file that shrinks meanwhile is an error and no signal.
"""

from __future__ import annotations

import stat
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, TypeAlias, overload

import numpy as np

from engine.gguf.errors import (
    BadAlignment,
    BadDimensions,
    BadName,
    BadOffset,
    BadRow,
    BadTensorType,
    BadValueType,
    Duplicate,
    GgufError,
    NotGguf,
    NotUtf8,
    Overlap,
    TooMany,
    Truncated,
    Unreadable,
    WrongByteOrder,
    WrongVersion,
)
from engine.gguf.types import GgmlType, ValueType

MAGIC = b"GGUF"
DEFAULT_ALIGNMENT = 32
ALIGNMENT_KEY = "general.alignment"

# Far above what any published model has; they bound the time and memory that reading takes.
MAX_KEYS = 1 << 16
MAX_TENSORS = 1 << 16
MAX_ARRAY_STRINGS = 1 << 21  # in all arrays of a file together
MAX_HEADER_BYTES = 1 << 26
MAX_ALIGNMENT = 1 << 20
MAX_NAME_BYTES = 63  # GGML_MAX_NAME, less its NUL
MAX_KEY_BYTES = 65535  # the format's own limit
MAX_DIMENSIONS = 4
MAX_ELEMENTS = (1 << 63) - 1

_READ_AHEAD = 1 << 20
_HEADER = struct.Struct("<IQQ")
_SCALARS = {
    ValueType.UINT8: struct.Struct("<B"),
    ValueType.INT8: struct.Struct("<b"),
    ValueType.UINT16: struct.Struct("<H"),
    ValueType.INT16: struct.Struct("<h"),
    ValueType.UINT32: struct.Struct("<I"),
    ValueType.INT32: struct.Struct("<i"),
    ValueType.FLOAT32: struct.Struct("<f"),
    ValueType.BOOL: struct.Struct("<?"),
    ValueType.UINT64: struct.Struct("<Q"),
    ValueType.INT64: struct.Struct("<q"),
    ValueType.FLOAT64: struct.Struct("<d"),
}
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")

Scalar: TypeAlias = int | float | bool | str


@dataclass(frozen=True, eq=False)
class GgufArray(Sequence[Scalar]):
    """An array of the metadata, decoded when first looked into."""

    item: ValueType
    length: int
    raw: bytes

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, index: int) -> Scalar: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Scalar]: ...
    def __getitem__(self, index: int | slice) -> Scalar | Sequence[Scalar]:
        return self.values[index]

    @cached_property
    def values(self) -> tuple[Scalar, ...]:
        if self.item is not ValueType.STRING:
            dtype = np.dtype(_SCALARS[self.item].format)
            return tuple(np.frombuffer(self.raw, dtype, self.length).tolist())
        found: list[Scalar] = []
        position = 0
        for _ in range(self.length):
            (size,) = _U64.unpack_from(self.raw, position)
            found.append(self.raw[position + 8 : position + 8 + size].decode())
            position += 8 + size
        return tuple(found)


Value: TypeAlias = Scalar | GgufArray


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor; `path` is the file (of a split model: the part) that holds it.

    `shape` has the fastest dimension first, as ggml counts. `offset` is from the start of the
    data section, `absolute_offset` from the start of the file; all in bytes.
    """

    name: str
    shape: tuple[int, ...]
    type: GgmlType
    offset: int
    nbytes: int
    absolute_offset: int
    path: Path


@dataclass(frozen=True)
class GgufFile:
    """A file whose header has been read and found consistent with itself and its length."""

    path: Path
    version: int
    metadata: Mapping[str, Value]
    value_types: Mapping[str, ValueType]  # of the same keys
    tensors: tuple[TensorInfo, ...]
    data_offset: int
    alignment: int
    file_size: int


def read_gguf(path: Path) -> GgufFile:
    """Read `path`'s header; raises a `GgufError` that says what is wrong with the file."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe would be waited for, forever
            raise Unreadable(path, reason="not a regular file")
        with path.open("rb") as file:
            return read_gguf_from(file, path)
    except OSError as error:
        raise Unreadable(path, reason=error.strerror or str(error)) from error


def read_gguf_from(file: BinaryIO, path: Path) -> GgufFile:
    """The same from anything that reads and seeks; `path` is what to call it."""
    header = _Header(path, file)
    version, n_tensors, n_keys = _read_counts(header)
    metadata, value_types = _read_metadata(header, n_keys)
    alignment = _alignment(header, metadata, value_types)
    table = [_read_tensor(header) for _ in range(n_tensors)]
    data_offset = header.position
    if table:
        data_offset += -data_offset % alignment
        if data_offset > header.size:
            raise header.truncated("tensor table", data_offset)
    tensors = tuple(
        TensorInfo(name, shape, type_, offset, nbytes, data_offset + offset, path)
        for name, shape, type_, offset, nbytes in table
    )
    gguf = GgufFile(
        path=path,
        version=version,
        metadata=MappingProxyType(metadata),
        value_types=MappingProxyType(value_types),
        tensors=tensors,
        data_offset=data_offset,
        alignment=alignment,
        file_size=header.size,
    )
    _check_names(gguf)
    _check_layout(gguf)
    return gguf


class _Header:
    """The part of the file before the tensors' data, read in pieces as parsing advances."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self.position = 0
        self.strings_left = MAX_ARRAY_STRINGS
        self._file = file
        self._buffer = bytearray()
        self.size = file.seek(0, 2)
        file.seek(0)

    @property
    def left(self) -> int:
        return self.size - self.position

    def truncated(self, what: str, needed: int) -> GgufError:
        return Truncated(self.path, what=what, needed=needed, size=self.size)

    def view(self, nbytes: int, what: str) -> bytearray:
        """The buffer, which now holds at least `nbytes` from `position` on."""
        end = self.position + nbytes
        if nbytes > self.left:
            raise self.truncated(what, end)
        if end > MAX_HEADER_BYTES:
            raise TooMany(self.path, what="bytes of metadata", count=end, limit=MAX_HEADER_BYTES)
        while len(self._buffer) < end:
            wanted = max(end - len(self._buffer), _READ_AHEAD)
            piece = self._file.read(wanted)
            if not piece:  # the file became shorter since it was opened
                self.size = len(self._buffer)
                raise self.truncated(what, end)
            self._buffer += piece
        return self._buffer

    def take(self, nbytes: int, what: str) -> bytes:
        buffer = self.view(nbytes, what)
        taken = bytes(buffer[self.position : self.position + nbytes])
        self.position += nbytes
        return taken

    def number(self, kind: struct.Struct, what: str) -> int:
        (value,) = kind.unpack(self.take(kind.size, what))
        return value

    def string(self, what: str) -> str:
        size = self.number(_U64, what)
        try:
            return self.take(size, what).decode()
        except UnicodeDecodeError as error:
            raise NotUtf8(self.path, what=what) from error


def _read_counts(header: _Header) -> tuple[int, int, int]:
    if header.size < len(MAGIC) or header.take(len(MAGIC), "header") != MAGIC:
        raise NotGguf(header.path)
    version, n_tensors, n_keys = _HEADER.unpack(header.take(_HEADER.size, "header"))
    if version & 0xFFFF == 0 and version:
        raise WrongByteOrder(header.path)
    if version not in (2, 3):
        raise WrongVersion(header.path, version=version)
    for what, count, limit, least in (
        ("metadata keys", n_keys, MAX_KEYS, 13),
        ("tensors", n_tensors, MAX_TENSORS, 24),
    ):
        if count > limit:
            raise TooMany(header.path, what=what, count=count, limit=limit)
        if count * least > header.left:
            raise header.truncated(what, header.position + count * least)
    return version, n_tensors, n_keys


def _read_metadata(header: _Header, n_keys: int) -> tuple[dict[str, Value], dict[str, ValueType]]:
    metadata: dict[str, Value] = {}
    value_types: dict[str, ValueType] = {}
    for _ in range(n_keys):
        key = header.string("metadata keys")
        if not key or "\0" in key or len(key.encode()) > MAX_KEY_BYTES:
            raise BadName(header.path, kind="metadata key", name=key[:MAX_NAME_BYTES])
        if key in metadata:
            raise Duplicate(header.path, kind="metadata key", name=key)
        type_ = _value_type(header, key)
        if type_ is ValueType.ARRAY:
            metadata[key] = _read_array(header, key)
        elif type_ is ValueType.STRING:
            metadata[key] = header.string(f"value of {key}")
        else:
            metadata[key] = header.number(_SCALARS[type_], f"value of {key}")
        value_types[key] = type_
    return metadata, value_types


def _value_type(header: _Header, key: str) -> ValueType:
    number = header.number(_U32, f"value of {key}")
    try:
        return ValueType(number)
    except ValueError as error:
        raise BadValueType(header.path, key=key, type=number) from error


def _read_array(header: _Header, key: str) -> GgufArray:
    what = f"value of {key}"
    item = _value_type(header, key)
    count = header.number(_U64, what)
    if item is ValueType.ARRAY:
        raise BadValueType(header.path, key=key, type="array of arrays")
    if item is not ValueType.STRING:
        nbytes = count * _SCALARS[item].size
        return GgufArray(item, count, header.take(nbytes, what))
    if count > header.strings_left:
        raise TooMany(header.path, what="strings", count=count, limit=MAX_ARRAY_STRINGS)
    header.strings_left -= count
    return GgufArray(item, count, _take_strings(header, count, what))


def _take_strings(header: _Header, count: int, what: str) -> bytes:
    """The bytes of `count` strings, each checked: a vocabulary has hundreds of thousands."""
    if count * _U64.size > header.left:
        raise header.truncated(what, header.position + count * _U64.size)
    start = header.position
    size_at = _U64.unpack_from
    buffer = header.view(0, what)
    held = len(buffer)
    position = start
    try:
        for _ in range(count):
            if position + 8 > held:
                header.position = position
                held = len(buffer := header.view(8, what))
            (size,) = size_at(buffer, position)
            end = position + 8 + size
            if end > held:
                header.position = position
                held = len(buffer := header.view(8 + size, what))
            buffer[position + 8 : end].decode()
            position = end
    except UnicodeDecodeError as error:
        raise NotUtf8(header.path, what=what) from error
    header.position = start
    return header.take(position - start, what)


def _alignment(
    header: _Header, metadata: Mapping[str, Value], value_types: Mapping[str, ValueType]
) -> int:
    value = metadata.get(ALIGNMENT_KEY, DEFAULT_ALIGNMENT)
    typed = value_types.get(ALIGNMENT_KEY, ValueType.UINT32) is ValueType.UINT32
    if not typed or not isinstance(value, int) or not _is_power_of_two(value):
        shown = value if isinstance(value, int | float) else "no number"
        raise BadAlignment(header.path, alignment=shown, limit=MAX_ALIGNMENT)
    return value


def _is_power_of_two(value: int) -> bool:
    return 0 < value <= MAX_ALIGNMENT and value & (value - 1) == 0


def _read_tensor(header: _Header) -> tuple[str, tuple[int, ...], GgmlType, int, int]:
    name = header.string("tensor table")
    n_dims = header.number(_U32, "tensor table")
    if n_dims > MAX_DIMENSIONS:
        raise BadDimensions(header.path, tensor=name, shape=f"{n_dims} dimensions")
    raw = header.take(8 * n_dims, "tensor table")
    shape = struct.unpack(f"<{n_dims}Q", raw)
    number, offset = struct.unpack("<IQ", header.take(12, "tensor table"))
    try:
        type_ = GgmlType(number)
    except ValueError as error:
        raise BadTensorType(header.path, tensor=name, type=number) from error
    return name, shape, type_, offset, _tensor_bytes(header.path, name, shape, type_)


def _tensor_bytes(path: Path, name: str, shape: tuple[int, ...], type_: GgmlType) -> int:
    elements = 1
    for one in shape:
        elements *= one
    if not 0 < elements <= MAX_ELEMENTS:
        raise BadDimensions(path, tensor=name, shape=list(shape))
    row = shape[0] if shape else 1
    if row % type_.block.elements:
        raise BadRow(path, tensor=name, row=row, block=type_.block.elements, type=type_.name)
    return elements // type_.block.elements * type_.block.nbytes


def _check_names(gguf: GgufFile) -> None:
    seen: set[str] = set()
    for tensor in gguf.tensors:
        name = tensor.name
        if not name or "\0" in name or len(name.encode()) > MAX_NAME_BYTES:
            raise BadName(gguf.path, kind="tensor", name=name[:MAX_NAME_BYTES])
        if name in seen:
            raise Duplicate(gguf.path, kind="tensor", name=name)
        seen.add(name)


def _check_layout(gguf: GgufFile) -> None:
    previous: TensorInfo | None = None
    for tensor in sorted(gguf.tensors, key=lambda one: one.offset):
        if tensor.offset % gguf.alignment:
            raise BadOffset(
                gguf.path,
                tensor=tensor.name,
                offset=tensor.offset,
                expected=f"a multiple of {gguf.alignment}",
            )
        if previous is not None and tensor.offset < previous.offset + previous.nbytes:
            raise Overlap(gguf.path, tensor=tensor.name, other=previous.name)
        end = tensor.absolute_offset + tensor.nbytes
        if end > gguf.file_size:
            raise Truncated(
                gguf.path, what=f"tensor {tensor.name}", needed=end, size=gguf.file_size
            )
        previous = tensor
