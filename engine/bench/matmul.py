"""Measures matrix products: a kernel of ours against the library's and against the processor.

Kernel, library and the kernel's own instruction on registers take turns within one run, because a
neighbour on the same core slows all three; medians are compared.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from engine.bench.random_weights import PIECE, RandomWeights
from engine.bench.synth import weight_type
from engine.gguf.types import GgmlType
from engine.native import native

_DEVIATION = 0.02  # of the random weights, as large models have it


class MatmulRow(BaseModel):
    """A product of `n` x `k` weights of `type` with `m` columns of activations.

    `seconds` by `kernel`, one a repeat; the rates are medians. `peak_tflops` is that of the
    kernel's instruction on registers, measured on one thread and times `threads`.
    `library_tflops` is the faster of the library's kernels, for weights in `library_buffer`.
    """

    model_config = ConfigDict(frozen=True)

    type: str
    kernel: str
    m: int
    n: int
    k: int
    threads: int
    seconds: list[float]
    tflops: float
    peak_tflops: float
    of_peak: float
    library_tflops: float
    library_buffer: str
    speedup: float


# Products done and in all, and the row just finished.
OnRow = Callable[[int, int, MatmulRow], None]


def measure_matmul(
    types: Sequence[str],
    widths: Sequence[int],
    n: int,
    k: int,
    threads: Sequence[int],
    *,
    repeat: int,
    kernel: str | None = None,
    on_row: OnRow | None = None,
) -> list[MatmulRow]:
    """One row for each combination; `kernel` is the processor's fastest unless named.

    Raises UnknownType, and NativeError `kernel.*` or `weights.*` for a size that does not fit.
    """
    named = kernel or native().usable_kernels()[0]
    numbers = [weight_type(name) for name in types]
    rows: list[MatmulRow] = []
    total = len(numbers) * len(widths) * len(threads)
    for type_ in numbers:
        weights = random_rows(type_, n, k)
        for m in widths:
            for count in threads:
                rows.append(_measure(type_, weights, m, n, k, count, named, repeat))
                if on_row:
                    on_row(len(rows), total, rows[-1])
    return rows


@dataclass(frozen=True)
class Turns:
    """Seconds of each run by a kernel of ours; medians of those, of the library's, and of the
    kernel's instruction on registers, in operations a second of one thread."""

    seconds: list[float]
    ours: float
    library: float
    peak: float


def take_turns(bench: Any, kernel: str, repeat: int, buffer: int) -> Turns:
    """Kernel, library and peak one after the other, `repeat` times."""
    seconds: list[float] = []
    peaks: list[float] = []
    library: list[float] = []
    for _ in range(repeat):
        peaks.append(native().ProductBench.peak(kernel))
        seconds.append(bench.ours(kernel))
        peaks.append(native().ProductBench.peak(kernel))
        library.append(bench.library(buffer))
    median = statistics.median
    return Turns(seconds, median(seconds), median(library), median(peaks))


def random_rows(type_: GgmlType, n: int, k: int) -> NDArray[np.uint8]:
    """`n` rows of `k` random weights, a multiple of 256, as the library stores them."""
    if k % PIECE:
        raise ValueError(f"k must be a multiple of {PIECE}")
    return RandomWeights(type_, _DEVIATION, np.random.default_rng(1)).take(n * k)


def _measure(
    type_: GgmlType,
    weights: NDArray[np.uint8],
    m: int,
    n: int,
    k: int,
    threads: int,
    kernel: str,
    repeat: int,
) -> MatmulRow:
    bench = native().ProductBench(int(type_), m, n, k, weights, threads)
    buffers: list[str] = bench.buffers
    library = _fastest(bench, len(buffers))
    bench.ours(kernel)  # touches its memory for the first time
    turns = take_turns(bench, kernel, repeat, library)
    work = 2e-12 * m * n * k
    tflops, library_tflops = work / turns.ours, work / turns.library
    peak = turns.peak * 1e-12 * threads
    return MatmulRow(
        type=type_.name.lower(),
        kernel=kernel,
        m=m,
        n=n,
        k=k,
        threads=threads,
        seconds=turns.seconds,
        tflops=tflops,
        peak_tflops=peak,
        of_peak=tflops / peak,
        library_tflops=library_tflops,
        library_buffer=buffers[library],
        speedup=tflops / library_tflops,
    )


def _fastest(bench: Any, buffers: int) -> int:
    """The kind of memory from which the library multiplies fastest, after a warm-up each."""

    def best(buffer: int) -> float:
        bench.library(buffer)
        return min(bench.library(buffer) for _ in range(2))

    return min(range(buffers), key=best) if buffers > 1 else 0
