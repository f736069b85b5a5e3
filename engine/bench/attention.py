"""Measures a prompt's attention: in tiles of ours, against the library's and the processor's peak.

They take turns within one run, as products do (`engine.bench.matmul`); medians are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydantic import BaseModel, ConfigDict

from engine.bench.matmul import take_turns
from engine.bench.synth import weight_type
from engine.native import native


class AttentionRow(BaseModel):
    """`tokens` tokens attend to themselves and the `cached` - `tokens` before them.

    `seconds` by `kernel`, one a repeat; the rates are medians and count what is not hidden.
    `peak_tflops` is that of the kernel's instruction on registers, measured on one thread and times
    `threads`.
    """

    model_config = ConfigDict(frozen=True)

    type: str
    kernel: str
    tokens: int
    cached: int
    heads: int
    key_heads: int
    head_size: int
    threads: int
    seconds: list[float]
    tflops: float
    peak_tflops: float
    of_peak: float
    library_tflops: float
    speedup: float


# Measured and in all, and the row just finished.
OnRow = Callable[[int, int, AttentionRow], None]


def measure_attention(
    type_name: str,
    tokens: Sequence[int],
    cached: Sequence[int],
    heads: int,
    key_heads: int,
    head_size: int,
    threads: Sequence[int],
    *,
    repeat: int,
    kernel: str | None = None,
    on_row: OnRow | None = None,
) -> list[AttentionRow]:
    """A row for each combination in which `cached` is not below `tokens`.

    `type_name`: of keys and values in the cache. `kernel` is the processor's fastest unless named.
    Raises UnknownType, and NativeError `kernel.unknown` or `attention.wrong_shape`.
    """
    named = kernel or native().usable_kernels()[0]
    type_ = weight_type(type_name)
    wanted = [
        (width, length, count)
        for width in tokens
        for length in cached
        if length >= width
        for count in threads
    ]
    rows: list[AttentionRow] = []
    for width, length, count in wanted:
        bench = native().AttentionBench(
            width, length, heads, key_heads, head_size, head_size, int(type_), count
        )
        bench.library()
        bench.ours(named)  # touches its memory for the first time
        turns = take_turns(bench, named, repeat, buffer=0)
        work = 1e-12 * bench.operations
        tflops, library_tflops = work / turns.ours, work / turns.library
        peak = turns.peak * 1e-12 * count
        row = AttentionRow(
            type=type_.name.lower(),
            kernel=named,
            tokens=width,
            cached=length,
            heads=heads,
            key_heads=key_heads,
            head_size=head_size,
            threads=count,
            seconds=turns.seconds,
            tflops=tflops,
            peak_tflops=peak,
            of_peak=tflops / peak,
            library_tflops=library_tflops,
            speedup=tflops / library_tflops,
        )
        rows.append(row)
        if on_row:
            on_row(len(rows), len(wanted), row)
    return rows
