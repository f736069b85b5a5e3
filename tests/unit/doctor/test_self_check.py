"""The self-check names how a library fails, and passes the one that is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.doctor.self_check import self_check


def script(folder: Path, *lines: str) -> Path:
    path = folder / "kernels.py"
    path.write_text("\n".join(["import os, signal, sys, time", *lines]), encoding="utf-8")
    return path


def test_an_illegal_instruction_is_caught_and_the_kernel_named(tmp_path: Path) -> None:
    dying = script(
        tmp_path,
        "print('kernel: F16 CPU 64', file=sys.stderr)",
        "print('kernel: Q4_0 AMX 5', file=sys.stderr)",
        "print('the library says something', file=sys.stderr, flush=True)",
        "os.kill(os.getpid(), signal.SIGILL)",
    )
    outcome = self_check(dying)
    assert not outcome["healthy"]
    assert (outcome["reason"], outcome["kernel"]) == ("SIGILL", "Q4_0 AMX 5")


def test_wrong_values_are_not_healthy(tmp_path: Path) -> None:
    wrong = script(
        tmp_path, """print('{"wrong": [{"type": "Q4_0", "buffer": "AMX", "error": 1.0}]}')"""
    )
    outcome = self_check(wrong)
    assert not outcome["healthy"]
    assert (outcome["reason"], outcome["kernel"]) == ("wrong_values", "Q4_0 AMX")


def test_a_library_that_does_not_load_is_not_healthy(tmp_path: Path) -> None:
    outcome = self_check(script(tmp_path, "sys.exit('llama_cpp is not installed')"))
    assert not outcome["healthy"]
    assert (outcome["reason"], outcome["detail"]) == ("exit", "llama_cpp is not installed")


def test_a_kernel_that_hangs_is_stopped(tmp_path: Path) -> None:
    hanging = script(
        tmp_path, "print('kernel: Q8_0 CPU 1', file=sys.stderr, flush=True)", "time.sleep(60)"
    )
    outcome = self_check(hanging, time_limit_s=1)
    assert not outcome["healthy"]
    assert (outcome["reason"], outcome["kernel"]) == ("timeout", "Q8_0 CPU 1")


@pytest.mark.slow
def test_the_installed_library_is_healthy_in_every_kernel() -> None:
    outcome = self_check()
    assert outcome["healthy"], outcome
    kernels = {(kernel["type"], kernel["buffer"]) for kernel in outcome["kernels"]}
    assert {("Q4_0", "CPU"), ("NVFP4", "CPU"), ("Q2_0", "CPU"), ("IQ2_XXS", "CPU")} <= kernels
    assert any(device["type"] == "CPU" for device in outcome["devices"])
