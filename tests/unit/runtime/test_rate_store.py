"""Learned rates on disk: whole or not at all, and never in the way."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.runtime.learned import Learned, Sample, with_products, with_sample
from engine.runtime.rate_store import FILE_NAME, RateStore


def sampled(learned: Learned, key: str = "pair") -> Learned:
    return with_sample(learned, key, "odp", Sample(tokens=99, cached=0, seconds=1.0, time=1.0))


def test_what_one_process_learns_the_next_one_knows(tmp_path: Path) -> None:
    RateStore(tmp_path).update(sampled)
    assert RateStore(tmp_path).learned.pairs["pair"].samples["odp"][0].tokens == 99
    assert [file.name for file in tmp_path.iterdir()] == [FILE_NAME]


def test_two_processes_keep_each_others_additions(tmp_path: Path) -> None:
    first, second = RateStore(tmp_path), RateStore(tmp_path)
    assert first.learned == second.learned == Learned()
    first.update(lambda learned: sampled(learned, "first"))
    second.update(lambda learned: sampled(learned, "second"))
    assert set(RateStore(tmp_path).learned.pairs) == {"first", "second"}


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xfe", b'{"pairs": 3}', b'{"other": {}}'])
def test_a_damaged_file_is_begun_anew(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(damage)
    store = RateStore(tmp_path)
    assert store.learned == Learned()
    store.update(sampled)
    assert "pair" in RateStore(tmp_path).learned.pairs


def test_a_write_that_fails_leaves_the_old_file_and_the_new_rates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = RateStore(tmp_path)
    store.update(sampled)
    before = (tmp_path / FILE_NAME).read_bytes()

    def fails(_descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fails)
    store.update(lambda learned: with_products(learned, "CPU", {"NVFP4": 1.0}))
    assert store.learned.products == {"CPU": {"NVFP4": 1.0}}
    assert (tmp_path / FILE_NAME).read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [FILE_NAME]


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = RateStore(tmp_path / "file" / "below")
    assert "pair" in store.update(sampled).pairs


def test_threads_do_not_lose_each_others_runs(tmp_path: Path) -> None:
    store = RateStore(tmp_path)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: store.update(lambda one: sampled(one, f"{n}")), range(20)))
    assert len(RateStore(tmp_path).learned.pairs) == 20
