"""From which width on a kernel of ours multiplies a decoder's own weights faster than the library,
and whether one does in decoding.

Measured once for each type on each machine, in some tenths of a second, and kept. The library gets
its best: weights in whatever memory it has the fastest kernel for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from engine.bench.matmul import random_rows
from engine.gguf.types import GgmlType
from engine.kernels.measured import LEAST_GAIN, NEVER, best_of, known_or_measured, narrowest
from engine.native import native

FILE_NAME = "autocast.json"
_DECODE_FILE_NAME = "decode_kernels.json"
_SIDE = 2048  # of a block's linear in small
_DECODE_ROUNDS = 20  # of a fraction of a millisecond each

# Types that autocast leaves alone: finer than BF16, or NVFP4, which needs no autocast.
_NOT_CAST = {GgmlType.F32, GgmlType.F16, GgmlType.NVFP4}

# Types whose dot products are slow in the library and have one of ours. NVFP4's is always ours:
# there it is about unrounded activations as well.
DECODE_TYPES = (GgmlType.Q2_0, GgmlType.IQ1_S, GgmlType.IQ2_XXS)


def prepare_autocast(types: Iterable[str], threads: int) -> dict[str, int]:
    """Tells the native engine from how many columns on each of `types` is faster with ours.

    Measures what is not yet known. Returns the columns by type, NEVER where the library is faster
    or TWOFOLD_KERNEL leaves everything to it.
    """
    names = [name for name in dict.fromkeys(types) if GgmlType[name] not in _NOT_CAST]
    kernel: str = native().chosen_kernel()
    if kernel == "library":
        return dict.fromkeys(names, NEVER)
    columns = known_or_measured(FILE_NAME, names, kernel, threads, _measure)
    for name, least in columns.items():
        native().set_autocast_columns(int(GgmlType[name]), least)
    return columns


def prepare_decode(types: Iterable[str], threads: int) -> dict[str, bool]:
    """Tells the native engine which of `types` to decode with dot products of ours.

    Measures what is not yet known. Returns the answer for those of DECODE_TYPES that have one.
    """
    kernel: str = native().chosen_kernel()
    names = [
        type_.name
        for type_ in DECODE_TYPES
        if type_.name in set(types) and native().has_decode_kernel(int(type_))
    ]
    columns = known_or_measured(_DECODE_FILE_NAME, names, kernel, threads, _measure_decode)
    taken = {name: least != NEVER for name, least in columns.items()}
    for name, ours in taken.items():
        native().set_decode_kernel(int(GgmlType[name]), ours)
    return taken


def _measure_decode(name: str, kernel: str, threads: int) -> int:
    """From how many columns ours is faster in decoding: one, or never."""
    ours, library = best_of(product(GgmlType[name], 1, threads), kernel, rounds=_DECODE_ROUNDS)
    return 1 if library >= ours * LEAST_GAIN else NEVER


def product(type_: GgmlType, width: int, threads: int) -> Any:
    """A product of the measured size, with `width` columns of activations."""
    weights = random_rows(type_, _SIDE, _SIDE)
    return native().ProductBench(int(type_), width, _SIDE, _SIDE, weights, threads)


def _measure(name: str, kernel: str, threads: int) -> int:
    return narrowest(lambda width: product(GgmlType[name], width, threads), kernel)
