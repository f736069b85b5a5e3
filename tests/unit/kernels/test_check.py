"""A kernel runs in a child process first; one that fails is not used, and the reason is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.kernels import check
from engine.kernels.check import KernelUnfit, Verdict, checked_kernels, run_check
from engine.native import native
from engine.words import sentence


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWOFOLD_CACHE", str(tmp_path))


def test_the_kernels_of_this_machine_pass_and_are_not_checked_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = checked_kernels()
    assert [verdict.kernel for verdict in first] == native().usable_kernels()
    assert all(verdict.reason is None for verdict in first)
    monkeypatch.setattr(check, "run_check", _never)
    assert checked_kernels() == first


def test_a_child_that_fails_is_a_reason() -> None:
    reason = run_check("no-such-kernel").reason
    assert reason is not None and "kernel.unknown" in reason


def test_another_build_or_processor_is_checked_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    checked_kernels()
    monkeypatch.setattr(check, "machine_key", lambda: "another")
    monkeypatch.setattr(check, "run_check", lambda name: Verdict(kernel=name, reason="it broke"))
    reasons = {verdict.kernel: verdict.reason for verdict in checked_kernels()}
    assert reasons.pop("scalar") is None
    assert set(reasons.values()) <= {"it broke"}


def test_a_forced_kernel_that_is_unfit_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    name = native().usable_kernels()[0]
    if name == "scalar":
        pytest.fail("this processor has no vector unit that Twofold knows")
    monkeypatch.setenv("TWOFOLD_KERNEL", name)
    monkeypatch.setattr(check, "run_check", lambda name: Verdict(kernel=name, reason="it broke"))
    with pytest.raises(KernelUnfit) as caught:
        check.use_checked_kernel()
    assert name in sentence(caught.value) and "it broke" in sentence(caught.value)


def test_a_damaged_cache_is_checked_anew(tmp_path: Path) -> None:
    (tmp_path / check.FILE_NAME).write_text("{", encoding="utf-8")
    assert all(verdict.reason is None for verdict in checked_kernels())


def _never(_name: str) -> Verdict:
    raise AssertionError("checked again")
