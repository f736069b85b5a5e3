"""From which width on a kernel of ours multiplies a decoder's own weights faster than the library,
and whether one does in decoding.

Measured once for each type on each machine, in some tenths of a second, and kept. The library gets
its best: weights in whatever memory it has the fastest kernel for.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from engine import paths
from engine.bench.matmul import random_rows
from engine.gguf.types import GgmlType
from engine.kernels.check import machine_key
from engine.native import native

FILE_NAME = "autocast.json"
_DECODE_FILE_NAME = "decode_kernels.json"
NEVER = 0
# A block's linear in small; narrow and wide prompts. The widest is a micro-batch's usual half.
_SIDE = 2048
_WIDTHS = (256, 128, 64, 32)
# A kernel has to be faster by this much to be taken.
_LEAST_GAIN = 1.1
_ROUNDS = 3
_DECODE_ROUNDS = 20  # of a fraction of a millisecond each

# Types that autocast leaves alone: finer than BF16, or NVFP4, which needs no autocast.
_NOT_CAST = {GgmlType.F32, GgmlType.F16, GgmlType.NVFP4}

# Types whose dot products are slow in the library and have one of ours. NVFP4's is always ours:
# there it is about unrounded activations as well.
DECODE_TYPES = (GgmlType.Q2_0, GgmlType.IQ1_S, GgmlType.IQ2_XXS)

_Known = TypeAdapter(dict[str, dict[str, int]])


def prepare_autocast(types: Iterable[str], threads: int) -> dict[str, int]:
    """Tells the native engine from how many columns on each of `types` is faster with ours.

    Measures what is not yet known. Returns the columns by type, NEVER where the library is faster
    or TWOFOLD_KERNEL leaves everything to it.
    """
    names = [name for name in dict.fromkeys(types) if GgmlType[name] not in _NOT_CAST]
    kernel: str = native().chosen_kernel()
    if kernel == "library":
        return dict.fromkeys(names, NEVER)
    columns = _known_or_measured(FILE_NAME, names, kernel, threads, _measure)
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
    columns = _known_or_measured(_DECODE_FILE_NAME, names, kernel, threads, _measure_decode)
    taken = {name: least != NEVER for name, least in columns.items()}
    for name, ours in taken.items():
        native().set_decode_kernel(int(GgmlType[name]), ours)
    return taken


def _known_or_measured(
    file_name: str,
    names: Sequence[str],
    kernel: str,
    threads: int,
    measure: Callable[[str, str, int], int],
) -> dict[str, int]:
    """The columns for each type: from the file of what was measured here, or measured and kept."""
    file = paths.cache_folder() / file_name
    key = f"{machine_key()} {kernel} {threads}"
    known = _read(file)
    found = known.get(key, {})
    missing = [name for name in names if name not in found]
    if missing:
        found = {**found, **{name: measure(name, kernel, threads) for name in missing}}
        _write(file, {**known, key: found})
    return {name: found[name] for name in names}


def _measure_decode(name: str, kernel: str, threads: int) -> int:
    """From how many columns ours is faster in decoding: one, or never."""
    ours, library = _best(product(GgmlType[name], 1, threads), kernel, rounds=_DECODE_ROUNDS)
    return 1 if library >= ours * _LEAST_GAIN else NEVER


def product(type_: GgmlType, width: int, threads: int) -> Any:
    """A product of the measured size, with `width` columns of activations."""
    weights = random_rows(type_, _SIDE, _SIDE)
    return native().ProductBench(int(type_), width, _SIDE, _SIDE, weights, threads)


def _measure(name: str, kernel: str, threads: int) -> int:
    least = NEVER
    for width in _WIDTHS:
        ours, library = _best(product(GgmlType[name], width, threads), kernel)
        if library < ours * _LEAST_GAIN:
            break
        least = width
    return least


def _best(bench: Any, kernel: str, rounds: int = _ROUNDS) -> tuple[float, float]:
    """Seconds by ours and by the library, who take turns."""
    buffers = range(len(bench.buffers))
    bench.ours(kernel)
    ours: list[float] = []
    library: list[float] = []
    for _ in range(rounds):
        library += [bench.library(buffer) for buffer in buffers]
        ours.append(bench.ours(kernel))
    return min(ours), min(library)


def _read(file: Path) -> Mapping[str, dict[str, int]]:
    try:
        return _Known.validate_json(file.read_bytes())
    except (OSError, ValidationError):
        return {}


def _write(file: Path, known: dict[str, dict[str, int]]) -> None:
    """Whole or not at all; a folder that cannot be written costs a measurement at each start."""
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
        with os.fdopen(handle, "wb") as out:
            out.write(_Known.dump_json(known))
        Path(name).replace(file)
