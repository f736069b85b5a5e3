"""Measuring a disk: the row, the clock, and files that cannot be measured."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from engine.bench.disk import DiskRow, measure_disk
from engine.errors import NativeError
from engine.native import native
from engine.words import sentence


def scratch_file(folder: Path, size: int) -> Path:
    path = folder / "weights 重み.bin"
    path.write_bytes(bytes(range(256)) * (size // 256) + b"\1" * (size % 256))
    return path


def test_a_file_is_read_over_again_until_the_time_is_up(tmp_path: Path) -> None:
    path = scratch_file(tmp_path, 65536 + 5)
    start = time.monotonic()
    row = measure_disk(path, block_bytes=65536, in_flight=2, seconds=0.2)
    took = time.monotonic() - start
    assert 0.2 <= took < 5
    assert row == DiskRow(block_bytes=65536, gbps=row.gbps, direct=row.direct, in_flight=2)
    # That is more than one round through the file.
    assert row.gbps * 1e9 * took > path.stat().st_size


@pytest.mark.parametrize("size", [1, 4095, 4096, 70000])
def test_files_smaller_than_a_request_are_measured_too(tmp_path: Path, size: int) -> None:
    row = measure_disk(scratch_file(tmp_path, size), seconds=0.02)
    assert row.gbps > 0


def test_a_file_in_memory_is_reported_as_not_direct(tmp_path: Path) -> None:
    path = Path("/dev/shm") / f"twofold-{tmp_path.name}"
    path.write_bytes(b"1" * 100_000)
    try:
        assert not measure_disk(path, block_bytes=8192, seconds=0.02).direct
    finally:
        path.unlink()


def test_other_threads_run_meanwhile(tmp_path: Path) -> None:
    path = scratch_file(tmp_path, 65536)
    done = threading.Event()
    ticks = 0

    def measure() -> None:
        measure_disk(path, seconds=0.2)
        done.set()

    thread = threading.Thread(target=measure)
    thread.start()
    while not done.wait(0.005):
        ticks += 1
    thread.join()
    assert ticks >= 5


def test_an_empty_missing_or_odd_file_gives_a_sentence(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    for path, code in (
        (empty, "disk.file_empty"),
        (tmp_path / "missing", "disk.open_failed"),
        (tmp_path, "disk.open_failed"),
    ):
        with pytest.raises(NativeError) as caught:
            measure_disk(path, seconds=0.02)
        assert caught.value.code == code
        assert str(path) in sentence(caught.value)
        assert sentence(caught.value) != str(caught.value)


@pytest.mark.parametrize(
    ("block_bytes", "in_flight", "seconds"),
    [(0, 4, 1.0), (5000, 4, 1.0), (4096, 0, 1.0), (4096, 4, 0.0)],
)
def test_sizes_that_make_no_sense_are_refused(
    tmp_path: Path, block_bytes: int, in_flight: int, seconds: float
) -> None:
    with pytest.raises(ValueError, match="multiple of 4096"):
        measure_disk(scratch_file(tmp_path, 4096), block_bytes, in_flight, seconds)


def test_dropping_a_missing_file_from_the_cache_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NativeError) as caught:
        native().drop_from_page_cache(tmp_path / "missing")
    assert caught.value.code == "disk.open_failed"
