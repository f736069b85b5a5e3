"""What was measured once here: from which width on a kernel of ours is the faster one."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from engine import paths
from engine.kernels.check import machine_key, multiplier

NEVER = 0
# A kernel has to be faster by this much to be taken.
LEAST_GAIN = 1.1
_ROUNDS = 3
# Narrow and wide prompts; the widest is a micro-batch's usual half.
_WIDTHS = (256, 128, 64, 32)

_Known = TypeAdapter(dict[str, dict[str, int]])


def known_or_measured(
    file_name: str,
    names: Sequence[str],
    kernel: str,
    threads: int,
    measure: Callable[[str, str, int], int],
) -> dict[str, int]:
    """The width for each name: from the file of what was measured here, or measured and kept.

    `measure` takes a name, the kernel and the number of threads.
    """
    file = paths.cache_folder() / file_name
    key = f"{machine_key()} {multiplier()} {threads}"
    known = _read(file)
    found = known.get(key, {})
    missing = [name for name in names if name not in found]
    if missing:
        found = {**found, **{name: measure(name, kernel, threads) for name in missing}}
        _write(file, {**known, key: found})
    return {name: found[name] for name in names}


def narrowest(bench: Callable[[int], Any], kernel: str) -> int:
    """The fewest tokens from which on ours is faster; `bench` makes what is timed for a width."""
    least = NEVER
    for width in _WIDTHS:
        ours, library = best_of(bench(width), kernel)
        if library < ours * LEAST_GAIN:
            break
        least = width
    return least


def best_of(bench: Any, kernel: str, rounds: int = _ROUNDS) -> tuple[float, float]:
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
