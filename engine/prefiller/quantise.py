"""Encodes a model's weights as NVFP4 on all cores, never holding more than a block of them."""

from __future__ import annotations

import contextlib
import math
import os
import struct
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from engine.errors import NativeError
from engine.gguf.errors import Unreadable
from engine.gguf.reader import TensorInfo
from engine.gguf.splits import GgufModel
from engine.gguf.types import GgmlType
from engine.native import native
from engine.prefiller.errors import SourceShrank, UnusableWeights
from engine.prefiller.linears import BlockLinear

T = TypeVar("T")

CHUNK = 2 << 20  # bytes of source weights in one task
_STEP = 256  # weights; a multiple of every type's block, NVFP4's among them


@dataclass(frozen=True, slots=True)
class Encoded:
    """NVFP4 blocks of one tensor, as ggml stores them, and the scale they are under."""

    name: str
    scale: float
    blocks: NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class _Chunk:
    """`count` weights of a tensor from `first` on, in `nbytes` of its file from `offset` on."""

    tensor: TensorInfo
    first: int
    count: int
    offset: int
    nbytes: int


class Quantiser:
    """Reads `tensors` of `source`; a context manager that owns the threads and open files.

    `advance` is called with source bytes as they are done, each of them once in each pass;
    `check_cancelled` often, from any thread, to raise what ends the work.
    """

    PASSES = 2  # the largest magnitude, then the encoding under the scale that it gives

    def __init__(
        self,
        source: GgufModel,
        tensors: Mapping[BlockLinear, TensorInfo],
        advance: Callable[[int], None],
        check_cancelled: Callable[[], None],
    ) -> None:
        self._source = source
        self._tensors = tensors
        self._advance = advance
        self._check_cancelled = check_cancelled
        self._closing = threading.Event()
        self._native = native()
        self._files = {file.path: _open(file.path) for file in source.files}
        self._pool = ThreadPoolExecutor(_cores(), "prefiller-encoder")

    def __enter__(self) -> Quantiser:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._closing.set()
        self._pool.shutdown(cancel_futures=True)
        for descriptor in self._files.values():
            os.close(descriptor)

    def encode(self, groups: Sequence[Sequence[BlockLinear]]) -> list[Encoded]:
        """The groups' tensors, encoded, in order; those of one group under one scale."""
        factors = {place: self._factor(place) for group in groups for place in group}
        magnitudes = {
            place: [
                (chunk, self._pool.submit(self._magnitude, chunk))
                for chunk in _chunks(self._tensors[place])
            ]
            for place in factors
        }
        scales: dict[BlockLinear, float] = {}
        for group in groups:
            largest = [factors[place] * max(self._results(magnitudes[place])) for place in group]
            scale: float = self._native.tensor_scale(max(largest))
            scales |= dict.fromkeys(group, scale)

        blocks: dict[BlockLinear, NDArray[np.uint8]] = {}
        encoding: list[tuple[_Chunk, Future[None]]] = []
        for place, factor in factors.items():
            tensor = self._tensors[place]
            blocks[place] = np.empty(_nvfp4_bytes(tensor.shape[0] * tensor.shape[1]), np.uint8)
            for chunk in _chunks(tensor):
                at = _nvfp4_bytes(chunk.first)
                out = blocks[place][at : at + _nvfp4_bytes(chunk.count)]
                task = self._pool.submit(self._encode, chunk, scales[place] / factor, out)
                encoding.append((chunk, task))
        for _ in self._results(encoding):
            pass
        return [Encoded(place.name, scales[place], blocks[place]) for place in factors]

    def _results(self, tasks: Sequence[tuple[_Chunk, Future[T]]]) -> Iterator[T]:
        for chunk, task in tasks:
            yield task.result()
            self._advance(chunk.nbytes)

    def _magnitude(self, chunk: _Chunk) -> float:
        data = self._read(chunk)
        with _naming(chunk.tensor):
            return self._native.source_magnitude(data, int(chunk.tensor.type), chunk.count)

    def _encode(self, chunk: _Chunk, scale: float, out: NDArray[np.uint8]) -> None:
        data = self._read(chunk)
        with _naming(chunk.tensor):
            self._native.encode_source(data, int(chunk.tensor.type), chunk.count, scale, out)

    def _read(self, chunk: _Chunk) -> bytes:
        self._check_cancelled()
        if self._closing.is_set():
            raise CancelledError
        path = chunk.tensor.path
        try:
            data = os.pread(self._files[path], chunk.nbytes, chunk.offset)
        except OSError as error:
            raise Unreadable(path, reason=error.strerror or str(error)) from error
        if len(data) != chunk.nbytes:
            raise SourceShrank(path=str(path), tensor=chunk.tensor.name)
        return data

    def _factor(self, place: BlockLinear) -> float:
        """What the source multiplies its weights by: its own scale, where it has one."""
        scale = self._source.by_name.get(place.name.removesuffix(".weight") + ".scale")
        if scale is None or scale.type is not GgmlType.F32 or scale.nbytes != 4:
            return 1.0
        (factor,) = struct.unpack("<f", self._read(_Chunk(scale, 0, 1, scale.absolute_offset, 4)))
        if not math.isfinite(factor) or factor <= 0:
            raise UnusableWeights(path=str(scale.path), tensor=scale.name)
        return factor


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY)
    except OSError as error:
        raise Unreadable(path, reason=error.strerror or str(error)) from error


def _chunks(tensor: TensorInfo) -> Iterator[_Chunk]:
    block = tensor.type.block
    weights = tensor.shape[0] * tensor.shape[1]
    step = CHUNK // block.nbytes * block.elements // _STEP * _STEP
    for first in range(0, weights, step):
        count = min(step, weights - first)
        offset = tensor.absolute_offset + first // block.elements * block.nbytes
        yield _Chunk(tensor, first, count, offset, count // block.elements * block.nbytes)


def _nvfp4_bytes(weights: int) -> int:
    block = GgmlType.NVFP4.block
    return weights // block.elements * block.nbytes


@contextlib.contextmanager
def _naming(tensor: TensorInfo) -> Generator[None]:
    """Names the tensor in errors that native code raises about its values or type."""
    try:
        yield
    except NativeError as error:
        if error.code not in ("weights.not_finite", "weights.unknown_type"):
            raise
        raise UnusableWeights(path=str(tensor.path), tensor=tensor.name) from error


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))
