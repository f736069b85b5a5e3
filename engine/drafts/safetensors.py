"""Reads safetensors files without trusting them.

Format: https://github.com/huggingface/safetensors#format - a length, a JSON table, the data. No
count or size is believed before it is checked against the file; nothing is mapped or executed.
"""

from __future__ import annotations

import json
import math
import stat
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from engine.drafts.errors import BadSafetensors, NoCheckpoint, Unreadable

MAX_HEADER_BYTES = 1 << 24  # far above any drafter's
MAX_TENSORS = 1 << 14
MAX_FILES = 64
MAX_DIMENSIONS = 4
BYTES = {"F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "BOOL": 1}


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """`shape` is in the file's order, rows first; `start` counts from the file's."""

    name: str
    type: str
    shape: tuple[int, ...]
    start: int
    path: Path

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * BYTES[self.type]

    def read(self) -> NDArray[Any]:
        """The values as stored; BF16 as their 16 bits."""
        kinds = {"F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "BOOL": "?"}
        try:
            with self.path.open("rb") as file:
                file.seek(self.start)
                raw = file.read(self.nbytes)
        except OSError as error:
            raise Unreadable(path=str(self.path), reason=error.strerror or str(error)) from error
        if len(raw) != self.nbytes:
            raise BadSafetensors(path=str(self.path), reason=f"it ends inside {self.name}")
        return np.frombuffer(raw, kinds[self.type]).reshape(self.shape)


def read_checkpoint(path: Path) -> tuple[Mapping[str, Any], Mapping[str, StoredTensor]]:
    """The configuration and the tensors of a file with `config.json` beside it, or of a folder."""
    folder = path if path.is_dir() else path.parent
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    if not files or len(files) > MAX_FILES or not files[0].exists():
        raise NoCheckpoint(path=str(path))
    tensors: dict[str, StoredTensor] = {}
    for file in files:
        for name, tensor in _read_table(file).items():
            if name in tensors:
                raise BadSafetensors(path=str(file), reason=f"{name} is in another file as well")
            tensors[name] = tensor
    return _read_config(folder / "config.json"), tensors


def _read_config(path: Path) -> Mapping[str, Any]:
    config = _object(_read(path, 0, MAX_HEADER_BYTES), path)
    if config is None:
        raise Unreadable(path=str(path), reason="it is no JSON object")
    return config


def _read_table(path: Path) -> dict[str, StoredTensor]:
    def bad(reason: str) -> BadSafetensors:
        return BadSafetensors(path=str(path), reason=reason)

    start = _read(path, 0, 8)
    size = path.stat().st_size
    if len(start) < 8:
        raise bad("it is too short for a header")
    (length,) = struct.unpack("<Q", start)
    if length > min(MAX_HEADER_BYTES, size - 8):
        raise bad(f"its header claims {length} bytes")
    table = _object(_read(path, 8, length), path)
    if table is None:
        raise bad("its header is no JSON object")
    table.pop("__metadata__", None)
    if len(table) > MAX_TENSORS:
        raise bad(f"it claims {len(table)} tensors")
    found = [_tensor(name, entry, 8 + length, path) for name, entry in table.items()]
    end = 8 + length
    for tensor in sorted(found, key=lambda one: (one.start, one.nbytes)):
        if tensor.start != end:
            raise bad(f"{tensor.name} starts where another tensor lies, or behind a gap")
        end += tensor.nbytes
    if end != size:
        raise bad(f"its tensors end at byte {end} of {size}")
    return {tensor.name: tensor for tensor in found}


def _tensor(name: str, entry: Any, data: int, path: Path) -> StoredTensor:
    fields = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
    shape, offsets = _wholes(fields.get("shape")), _wholes(fields.get("data_offsets"))
    kind = fields.get("dtype")
    if shape is None or offsets is None or len(shape) > MAX_DIMENSIONS or len(offsets) != 2:
        raise BadSafetensors(path=str(path), reason=f"{name} has no proper shape or place")
    if not isinstance(kind, str) or kind not in BYTES:
        raise BadSafetensors(path=str(path), reason=f"{name} is of the type {kind}")
    tensor = StoredTensor(name, kind, tuple(shape), data + offsets[0], path)
    if tensor.nbytes != offsets[1] - offsets[0]:
        raise BadSafetensors(path=str(path), reason=f"{name} does not fill its place")
    return tensor


def _wholes(values: Any) -> list[int] | None:
    """`values` if it is a list of whole numbers below 2^48."""
    if not isinstance(values, list):
        return None
    numbers = cast("list[Any]", values)
    good = all(type(one) is int and 0 <= one < 1 << 48 for one in numbers)
    return numbers if good else None


def _object(raw: bytes, path: Path) -> dict[str, Any] | None:
    """The JSON object in `raw`; None if it is none, or names a key twice."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) != len(pairs):
            raise BadSafetensors(path=str(path), reason="its header names a key twice")
        return dict(pairs)

    try:
        value = json.loads(raw, object_pairs_hook=once)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _read(path: Path, start: int, length: int) -> bytes:
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe would be waited for, forever
            raise Unreadable(path=str(path), reason="not a regular file")
        with path.open("rb") as file:
            file.seek(start)
            return file.read(length)
    except OSError as error:
        raise Unreadable(path=str(path), reason=error.strerror or str(error)) from error
