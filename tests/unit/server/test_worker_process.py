"""How a worker ended, in words."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.backends import device_memory
from engine.probe.nvml import CardFacts
from engine.server.worker_process import End

PYTHON = ("Fatal Python error: Aborted", "Thread 0x1 (most recent call first):", "  File x")


@pytest.mark.parametrize(
    ("status", "options", "code"),
    [
        (-9, {}, "worker.killed"),
        (-9, {"out_of_memory": True}, "worker.out_of_memory"),
        (-6, {}, "worker.aborted"),
        (-4, {}, "worker.illegal_instruction"),
        (-11, {}, "worker.crashed"),
        (-7, {}, "worker.crashed"),
        (1, {}, "worker.exited"),
        (-9, {"hung_s": 30.0}, "worker.hung"),
        (0xC0000005, {}, "worker.crashed"),
        (0xC000001D - (1 << 32), {}, "worker.illegal_instruction"),
        (-250, {}, "worker.exited"),
    ],
)
def test_each_end_has_its_code_and_a_sentence(
    status: int, options: dict[str, float], code: str
) -> None:
    end = End(pid=7, status=status, log=(), **options)  # type: ignore[arg-type]
    failure = end.failure("ask")
    assert failure.code == code
    assert failure.sentence.endswith(".")
    assert "{" not in failure.sentence
    assert failure.data["pid"] == 7


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (("loading", "ggml.c:12: GGML_ASSERT(x) failed", "0x1 backtrace", *PYTHON),
         "ggml.c:12: GGML_ASSERT(x) failed"),
        (("no more room", *PYTHON), "no more room"),
        (PYTHON, "Fatal Python error: Aborted"),
        ((), "no message"),
    ],
)  # fmt: skip
def test_the_line_that_tells_most_is_shown(log: tuple[str, ...], words: str) -> None:
    failure = End(pid=7, status=-6, log=log).failure("ask")
    assert failure.data["last_line"] == words
    assert failure.log == log


FULL = "alloc_tensor_range: failed to allocate {} buffer of size 3221225472"


@pytest.mark.parametrize("device", ["Vulkan0", "CUDA0", "RPC0[127.0.0.1:50052]"])
def test_a_death_for_lack_of_device_memory_tells_the_numbers(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = CardFacts(memory_free=1 << 30, holders=((os.getpid(), 5 << 30),))
    monkeypatch.setattr(device_memory, "cards", lambda _: {"0000:01:00.0": card})
    log = ("loading", FULL.format(device), "ggml.c:12: GGML_ASSERT(buffer) failed")
    failure = End(pid=7, status=-6, log=log).failure("loading")
    assert failure.code == "worker.device_memory"
    assert failure.data["device"] == device.partition("[")[0]
    assert "3.00 GiB more were wanted, 1.00 GiB were free" in failure.sentence
    assert f"({os.getpid()}) 5.00 GiB" in failure.sentence
    assert "./twofold memory" in failure.sentence


def test_what_nobody_tells_is_not_made_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(device_memory, "cards", lambda _: {})
    monkeypatch.setenv("TWOFOLD_HOME", str(tmp_path))
    failure = End(pid=7, status=-6, log=(FULL.format("Vulkan0"),)).failure("ask")
    assert (failure.data["free"], failure.data["holders"]) == ("?", "?")


@pytest.mark.parametrize("buffer", ["CPU", "CPU_REPACK", "Vulkan_Host"])
def test_the_hosts_own_memory_is_another_matter(buffer: str) -> None:
    assert End(pid=7, status=-6, log=(FULL.format(buffer),)).failure("ask").code == "worker.aborted"
