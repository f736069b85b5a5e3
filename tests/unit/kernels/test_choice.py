"""The kernel in use is the processor's fastest, or the one that TWOFOLD_KERNEL names."""

from __future__ import annotations

import pytest

from engine.errors import NativeError
from engine.native import native
from engine.words import sentence


def test_the_fastest_usable_kernel_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TWOFOLD_KERNEL", raising=False)
    usable = native().usable_kernels()
    assert native().chosen_kernel() == usable[0]
    assert usable[-1] == "scalar"


def test_the_environment_forces_any_usable_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*native().usable_kernels(), "library"]:
        monkeypatch.setenv("TWOFOLD_KERNEL", name)
        assert native().chosen_kernel() == name


def test_an_unusable_kernel_is_an_error_that_names_the_usable_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TWOFOLD_KERNEL", "mmx")
    with pytest.raises(NativeError) as caught:
        native().chosen_kernel()
    assert caught.value.code == "kernel.unknown"
    words = sentence(caught.value)
    assert "mmx" in words
    for name in [*native().usable_kernels(), "library"]:
        assert name in words
