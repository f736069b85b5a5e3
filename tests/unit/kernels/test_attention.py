"""Attention in tiles, inside the library: right, taken from where it was measured faster."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from engine.bench.attention import measure_attention
from engine.errors import NativeError
from engine.gguf.types import GgmlType
from engine.kernels import attention
from engine.kernels.attention import attention_tokens
from engine.kernels.measured import NEVER
from engine.native import native

_HEADS = SimpleNamespace(heads=4, key_heads=2, key_size=64, value_size=64, type=int(GgmlType.F16))


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWOFOLD_CACHE", str(tmp_path))
    monkeypatch.delenv("TWOFOLD_KERNEL", raising=False)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("type_", [GgmlType.F16, GgmlType.F32, GgmlType.BF16, GgmlType.Q8_0])
def test_tiles_compute_what_the_library_does(type_: GgmlType, threads: int) -> None:
    bench = native().AttentionBench(70, 300, 4, 2, 64, 64, int(type_), threads)
    bench.library()
    right = bench.results()
    # The library rounds queries to the type of the keys where that is quantised, or BF16.
    tolerance = 1e-4 if type_ in (GgmlType.F16, GgmlType.F32) else 0.02
    for kernel in native().usable_kernels():
        bench.ours(kernel)
        assert np.abs(bench.results() - right).max() < tolerance * np.abs(right).max(), kernel


class Bench:
    """Attention that takes ours 10 ms whatever the width, and the library 100 us a token."""

    buffers = ("CPU",)

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens

    def ours(self, _kernel: str) -> float:
        return 0.010

    def library(self, _buffer: int) -> float:
        return 1e-4 * self._tokens


def test_the_narrowest_prompt_that_gains(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[int] = []

    def bench(_heads: object, tokens: int, _threads: int) -> Bench:
        measured.append(tokens)
        return Bench(tokens)

    monkeypatch.setattr(attention, "attention", bench)
    assert attention_tokens(_HEADS, 1) == 128
    assert measured == [256, 128, 64]
    assert attention_tokens(_HEADS, 1) == 128
    assert measured == [256, 128, 64]  # known by now


def test_what_the_library_does_not_fuse_or_keeps_is_never_tiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert attention_tokens(None, 1) == NEVER
    monkeypatch.setenv("TWOFOLD_KERNEL", "library")
    assert attention_tokens(_HEADS, 1) == NEVER


def test_rows_hold_what_was_measured() -> None:
    rows = measure_attention("f16", [16, 64], [32, 64], 2, 1, 32, [1], repeat=2)
    assert [(row.tokens, row.cached) for row in rows] == [(16, 32), (16, 64), (64, 64)]
    for row in rows:
        assert len(row.seconds) == 2
        assert row.of_peak == pytest.approx(row.tflops / row.peak_tflops)
        assert row.speedup == pytest.approx(row.tflops / row.library_tflops)


def test_only_what_is_seen_counts_as_work() -> None:
    bench = native().AttentionBench(3, 5, 2, 1, 8, 16, int(GgmlType.F32), 1)
    assert bench.operations == 2 * (3 + 4 + 5) * 2 * (8 + 16)


@pytest.mark.parametrize("shape", [(0, 4, 2, 1), (5, 4, 2, 1), (2, 4, 3, 2)])
def test_a_shape_that_does_not_fit_is_an_error(shape: tuple[int, int, int, int]) -> None:
    with pytest.raises(NativeError) as caught:
        native().AttentionBench(*shape, 32, 32, int(GgmlType.F16), 1)
    assert caught.value.code == "attention.wrong_shape"
