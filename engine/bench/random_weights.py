"""Endless random weights of any type, as fast as memory copies.

A pool of pieces is quantised once; tensors are then drawn from it at random. Every type's blocks
stand alone, so any order of them is valid and decodes to values of the pool's distribution.
"""

from __future__ import annotations

import ctypes
import functools
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from engine.gguf.types import GgmlType
from engine.native import library_folder, native

PIECE = 256  # weights; a multiple of every type's block
_POOL = 1024  # pieces
_DRAW = 1 << 15  # pieces written at a time

# Integers and doubles are no weights; the rest the library can quantise to.
WEIGHT_TYPES = tuple(
    type_
    for type_ in GgmlType
    if type_ not in (GgmlType.I8, GgmlType.I16, GgmlType.I32, GgmlType.I64, GgmlType.F64)
)


class RandomWeights:
    """Weights of `type` with mean 0 and standard deviation `deviation`.

    `scale` is what NVFP4's blocks have to be multiplied with; 1 for types that need nothing.
    """

    def __init__(
        self,
        type_: GgmlType,
        deviation: float,
        random: np.random.Generator,
        *,
        under_scale: bool = False,
    ) -> None:
        values = (random.standard_normal((_POOL, PIECE)) * deviation).astype(np.float32)
        self._random = random
        self.scale = 1.0
        if under_scale:
            self.scale = float(native().tensor_scale(float(np.abs(values).max())))
            blocks = _encode_nvfp4(values, self.scale)
        else:
            blocks = quantise(values, type_)
        self._pieces = blocks.reshape(_POOL, -1)

    def write(self, file: BinaryIO, weights: int) -> None:
        """Writes `weights` random ones, a multiple of PIECE."""
        left = weights // PIECE
        while left > 0:
            count = min(left, _DRAW)
            drawn = self._random.integers(0, _POOL, count, dtype=np.uint16)
            file.write(self._pieces[drawn].data)
            left -= count

    def take(self, weights: int) -> NDArray[np.uint8]:
        """As many random weights, a multiple of PIECE, in memory."""
        drawn = self._random.integers(0, _POOL, weights // PIECE, dtype=np.uint16)
        return self._pieces[drawn].reshape(-1)


def quantise(values: NDArray[np.float32], type_: GgmlType) -> NDArray[np.uint8]:
    """Rows of `values`, shape [rows, columns], as the library stores them in `type_`."""
    rows, columns = values.shape
    block = type_.block
    out = np.empty(rows * columns // block.elements * block.nbytes, np.uint8)
    importance = np.ones(columns, np.float32)  # some types insist on it
    _quantise_chunk()(
        int(type_),
        np.ascontiguousarray(values).ctypes.data,
        out.ctypes.data,
        0,
        rows,
        columns,
        importance.ctypes.data,
    )
    return out


def _encode_nvfp4(values: NDArray[np.float32], scale: float) -> NDArray[np.uint8]:
    block = GgmlType.NVFP4.block
    out = np.empty(values.size // block.elements * block.nbytes, np.uint8)
    native().encode_source(values.tobytes(), int(GgmlType.F32), values.size, scale, out)
    return out


@functools.cache
def _quantise_chunk() -> ctypes._NamedFuncPointer:  # pyright: ignore[reportPrivateUsage]
    """size_t ggml_quantize_chunk(type, const float* src, void* dst, start, nrows, n_per_row,
    const float* imatrix)"""
    native()  # opens the libraries; the same file below is then the same copy
    function = ctypes.CDLL(str(library_folder() / "libggml-base.so.0")).ggml_quantize_chunk
    function.restype = ctypes.c_size_t
    function.argtypes = [ctypes.c_int, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 3]
    function.argtypes = [*function.argtypes, ctypes.c_void_p]
    return function
