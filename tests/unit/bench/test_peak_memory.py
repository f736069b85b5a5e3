"""Peak memory is one run's own, not that of all before it."""

from __future__ import annotations

import mmap
from pathlib import Path

import psutil
import pytest

from engine.bench import peak_memory
from engine.bench.peak_memory import PeakMemory

SIZE = 96 << 20


def touch_memory() -> None:
    with mmap.mmap(-1, SIZE) as memory:
        for page in range(0, SIZE, mmap.PAGESIZE):
            memory[page] = 1


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux alone tells")
def test_memory_that_was_freed_again_counts_for_its_run_only() -> None:
    before = psutil.Process().memory_info().rss
    peak = PeakMemory()
    touch_memory()
    during = peak.nbytes
    after = PeakMemory().nbytes
    assert during is not None
    assert after is not None
    assert during - before > 0.9 * SIZE
    assert during - after > 0.9 * SIZE


def test_where_the_system_does_not_tell_nothing_is_made_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peak_memory, "_RESET", tmp_path / "missing" / "clear_refs")
    assert PeakMemory().nbytes is None
