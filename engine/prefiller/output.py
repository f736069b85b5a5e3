"""Writes a GGUF file: its header, and a name that appears only when the file is whole."""

from __future__ import annotations

import contextlib
import glob
import math
import os
import shutil
import struct
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import psutil

from engine.gguf.types import GgmlType, ValueType
from engine.prefiller.errors import NoSpace, OutputExists, WriteFailed

ALIGNMENT = 4096  # of every tensor, so that reads can bypass the page cache
ALIGNMENT_KEY = "general.alignment"
_VERSION = 3
_MARGIN = 16 << 20  # bytes left free on the disk

MetadataScalar = str | int | float
MetadataValue = MetadataScalar | Sequence[str] | Sequence[int] | Sequence[float]


@dataclass(frozen=True, slots=True)
class PlannedTensor:
    """A tensor to write; `shape` has the fastest dimension first."""

    name: str
    shape: tuple[int, ...]
    type: GgmlType = GgmlType.NVFP4

    @property
    def nbytes(self) -> int:
        block = self.type.block
        return math.prod(self.shape) // block.elements * block.nbytes


def padding(nbytes: int) -> int:
    """Bytes from `nbytes` to the next aligned place."""
    return -nbytes % ALIGNMENT


def header(metadata: Mapping[str, MetadataValue], tensors: Sequence[PlannedTensor]) -> bytes:
    """A GGUF header, padded to where the first tensor starts.

    Its length depends on names and strings only, so that numbers can be set in a second writing.
    Texts become strings, truths bools, whole numbers u32, others f32; those in a list i32 or f32.
    Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
    """
    keys = {**metadata, ALIGNMENT_KEY: ALIGNMENT}
    out = bytearray(struct.pack("<4sIQQ", b"GGUF", _VERSION, len(tensors), len(keys)))
    for key, value in keys.items():
        out += _string(key)
        if isinstance(value, str | int | float):
            out += _scalar(value)
        else:
            out += _array(value)
    offset = 0
    for tensor in tensors:
        dimensions = len(tensor.shape)
        out += _string(tensor.name)
        out += struct.pack(f"<I{dimensions}QIQ", dimensions, *tensor.shape, tensor.type, offset)
        offset += tensor.nbytes + padding(tensor.nbytes)
    return bytes(out) + bytes(padding(len(out)))


def _scalar(value: MetadataScalar) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", ValueType.STRING) + _string(value)
    if isinstance(value, bool):
        return struct.pack("<I?", ValueType.BOOL, value)
    if isinstance(value, int):
        return struct.pack("<II", ValueType.UINT32, value)
    return struct.pack("<If", ValueType.FLOAT32, value)


def _array(values: Sequence[str] | Sequence[int] | Sequence[float]) -> bytes:
    """Of strings where it holds any; an empty one is of strings too."""
    texts = [_string(value) for value in values if isinstance(value, str)]
    if len(texts) == len(values):
        body, item = b"".join(texts), ValueType.STRING
    elif any(isinstance(value, float) for value in values):
        body, item = struct.pack(f"<{len(values)}f", *values), ValueType.FLOAT32
    else:
        body, item = struct.pack(f"<{len(values)}i", *values), ValueType.INT32
    return struct.pack("<IIQ", ValueType.ARRAY, item, len(values)) + body


def _string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


@contextlib.contextmanager
def whole_or_nothing(path: Path, nbytes: int, *, overwrite: bool) -> Generator[BinaryIO]:
    """A file to write `nbytes` to, which becomes `path` if the block ends without an exception.

    Until then it has a temporary name in the same folder; whatever ends the block early, it is
    removed, and what a killed process left of an earlier try is removed first.
    """
    if path.exists() and not overwrite:
        raise OutputExists(path=str(path))
    try:
        _remove_leftovers(path)
        free = shutil.disk_usage(path.parent).free
        if free < nbytes + _MARGIN:
            raise NoSpace(path=str(path), needed=nbytes + _MARGIN, free=free)
        partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        try:
            with partial.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise WriteFailed(path=str(path), reason=error.strerror or str(error)) from error


def _remove_leftovers(path: Path) -> None:
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.partial"):
        pid = leftover.name.removesuffix(".partial").rpartition(".")[2]
        if pid.isdecimal() and not psutil.pid_exists(int(pid)):
            leftover.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Makes the new name itself survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
