"""Autocast multiplies weights from the width on from which it was measured to be faster."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.kernels import autocast
from engine.kernels import measured as measured_file
from engine.kernels.autocast import NEVER, prepare_autocast, prepare_decode


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWOFOLD_CACHE", str(tmp_path))
    monkeypatch.delenv("TWOFOLD_KERNEL", raising=False)


class Bench:
    """A product whose kernel takes 10 ms whatever the width, and the library 100 us a column."""

    buffers = ("CPU", "CPU_REPACK")

    def __init__(self, width: int) -> None:
        self._width = width

    def ours(self, _kernel: str) -> float:
        return 0.010

    def library(self, buffer: int) -> float:
        return 1e-4 * self._width * (2 if buffer == 0 else 1)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    widths: list[int] = []

    def bench(width: int) -> Bench:
        widths.append(width)
        return Bench(width)

    monkeypatch.setattr(autocast, "product", lambda _type, width, _threads: bench(width))
    return widths


def test_the_narrowest_width_that_gains_against_the_librarys_best(measured: list[int]) -> None:
    assert prepare_autocast(["Q4_K"], 1) == {"Q4_K": 128}
    assert measured == [256, 128, 64]


def test_what_is_known_is_not_measured_again(measured: list[int]) -> None:
    prepare_autocast(["Q4_K"], 1)
    measured.clear()
    assert prepare_autocast(["Q4_K"], 1) == {"Q4_K": 128}
    assert measured == []
    prepare_autocast(["Q4_K"], 2)
    assert measured != []


def test_what_one_variant_of_the_library_is_known_for_is_not_said_of_another(
    measured: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare_autocast(["Q4_K"], 1)
    measured.clear()
    monkeypatch.setattr(measured_file, "multiplier", lambda: "sse42/scalar")
    prepare_autocast(["Q4_K"], 1)
    assert measured != []


def test_types_finer_than_bf16_are_left_to_the_library(measured: list[int]) -> None:
    assert prepare_autocast(["F32", "F16", "NVFP4"], 1) == {}
    assert measured == []


def test_a_slower_kernel_is_never_taken(
    measured: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Bench, "ours", lambda _self, _kernel: 1.0)
    assert prepare_autocast(["Q4_K"], 1) == {"Q4_K": NEVER}
    assert measured == [256]


def test_without_kernels_nothing_is_measured(
    measured: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWOFOLD_KERNEL", "library")
    assert prepare_autocast(["Q4_K"], 1) == {"Q4_K": NEVER}
    assert measured == []


def test_decoding_takes_what_is_measured_faster(
    measured: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert prepare_decode(["Q2_0", "Q4_K", "NVFP4"], 1) == {"Q2_0": False}
    assert measured == [1]
    monkeypatch.setattr(Bench, "ours", lambda _self, _kernel: 5e-5)
    assert prepare_decode(["IQ2_XXS"], 1) == {"IQ2_XXS": True}
    assert prepare_decode(["IQ2_XXS", "Q2_0"], 1) == {"IQ2_XXS": True, "Q2_0": False}
    assert measured == [1, 1]


def test_decoding_needs_a_kernel_with_dot_products(
    measured: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for kernel in ("scalar", "library"):
        monkeypatch.setenv("TWOFOLD_KERNEL", kernel)
        assert prepare_decode(["Q2_0", "IQ1_S"], 1) == {}
    assert measured == []
