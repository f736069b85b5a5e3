"""A kernel of ours, inside the library, errs no more than the library's own does."""

from __future__ import annotations

import numpy as np
import pytest

from engine.bench.matmul import measure_matmul, random_rows
from engine.errors import NativeError
from engine.gguf.types import GgmlType
from engine.kernels.autocast import DECODE_TYPES
from engine.native import native

_N, _K, _M = 96, 512, 40


@pytest.mark.parametrize("type_", [GgmlType.NVFP4, GgmlType.IQ2_XXS, GgmlType.Q4_K, GgmlType.Q8_0])
def test_no_less_exact_than_the_library(type_: GgmlType) -> None:
    weights = random_rows(type_, _N, _K)
    exact = _exact(type_, weights)
    for threads in (1, 2):
        bench = native().ProductBench(int(type_), _M, _N, _K, weights, threads)
        bench.library(0)
        library = _error(bench.results(), exact)
        for kernel in native().usable_kernels():
            bench.ours(kernel)
            assert _error(bench.results(), exact) <= library, kernel


def test_a_row_holds_what_was_measured() -> None:
    rows = measure_matmul(["nvfp4", "q4_0"], [1, 32], 64, 256, [1], repeat=2)
    assert [(row.type, row.m) for row in rows] == [
        ("nvfp4", 1), ("nvfp4", 32), ("q4_0", 1), ("q4_0", 32),
    ]  # fmt: skip
    for row in rows:
        assert row.kernel == native().usable_kernels()[0]
        assert len(row.seconds) == 2
        assert row.of_peak == pytest.approx(row.tflops / row.peak_tflops)
        assert row.speedup == pytest.approx(row.tflops / row.library_tflops)


def test_a_kernel_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(NativeError) as caught:
        measure_matmul(["nvfp4"], [1], 64, 256, [1], repeat=1, kernel="mmx")
    assert caught.value.code == "kernel.unknown"


@pytest.mark.parametrize("columns", [1, 5])
@pytest.mark.parametrize("type_", [GgmlType.NVFP4, *DECODE_TYPES])
def test_decoding_is_no_less_exact_than_the_library(type_: GgmlType, columns: int) -> None:
    weights = random_rows(type_, _N, _K)
    exact = _exact(type_, weights, columns)
    for threads in (1, 2):
        bench = native().ProductBench(int(type_), columns, _N, _K, weights, threads)
        bench.library(0)
        library = _error(bench.results(), exact)
        for kernel in native().usable_kernels():
            bench.ours(kernel)
            error = _error(bench.results(), exact)
            # Q2_0 rounds activations as the library does; the order of additions differs.
            assert error <= library * 1.001, kernel
            if type_ is GgmlType.NVFP4:  # activations keep 16 bits, or all
                assert error < library / 100, kernel


def _exact(type_: GgmlType, weights: np.ndarray, columns: int = _M) -> np.ndarray:
    """The product in double precision: the activations are read back through F32 weights = I."""
    decoded = _decode(type_, weights)
    identity = np.eye(_K, dtype=np.float32).view(np.uint8).reshape(-1)
    bench = native().ProductBench(int(GgmlType.F32), columns, _K, _K, identity, 1)
    bench.library(0)
    rows = bench.results().reshape(columns, _K).astype(np.float64)
    return rows @ decoded.T


def _decode(type_: GgmlType, weights: np.ndarray) -> np.ndarray:
    """By the library's own conversion."""
    values = native().decode_weights(int(type_), weights, _N * _K, False)
    return values.reshape(_N, _K).astype(np.float64)


def _error(found: np.ndarray, exact: np.ndarray) -> float:
    return float(np.linalg.norm(found.reshape(exact.shape) - exact) / np.linalg.norm(exact))
