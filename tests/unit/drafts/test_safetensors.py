"""A safetensors file is read, or refused with what is wrong with it; it is never believed."""

from __future__ import annotations

import json
import os
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.drafts.errors import BadSafetensors, DraftError, NoCheckpoint, Unreadable
from engine.drafts.safetensors import read_checkpoint
from tests.support.drafts.checkpoints import write_safetensors


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text("{}")
    values = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones(4, np.float16)}
    return write_safetensors(tmp_path / "m.safetensors", values)


def raw(path: Path, table: Any, data: bytes = b"", length: int | None = None) -> Path:
    header = table if isinstance(table, bytes) else json.dumps(table).encode()
    path.write_bytes(struct.pack("<Q", len(header) if length is None else length) + header + data)
    return path


def entry(**changes: Any) -> dict[str, Any]:
    return {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}}


def test_values_are_read_as_they_were_written(file: Path) -> None:
    _, tensors = read_checkpoint(file)
    assert tensors["a"].read().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert tensors["b"].read().tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    "table",
    [
        entry(dtype="F8_E4M3"),
        entry(dtype=["F32"]),
        entry(shape=[3]),
        entry(shape=[-2]),
        entry(shape=[1 << 60, 1 << 60]),
        entry(shape=[2.0]),
        entry(shape=[True, 2]),
        entry(shape="2"),
        entry(shape=[1, 1, 1, 1, 2]),
        entry(data_offsets=[4, 12]),
        entry(data_offsets=[8, 0]),
        entry(data_offsets=[0]),
        entry(data_offsets=None),
        {"a": []},
        {**entry(), "b": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}},
        {**entry(), "b": {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]}},
        [],
        b"{",
        b"\xff" * 9,
        b"[" * 100_000,
        b'{"a": {}, "a": {}}',
    ],
)
def test_a_table_that_cannot_be_is_refused(file: Path, table: Any) -> None:
    raw(file, table, bytes(8))
    with pytest.raises(BadSafetensors):
        read_checkpoint(file)


def test_a_length_beyond_the_file_is_not_believed(file: Path) -> None:
    for length in (1 << 63, (1 << 64) - 1, 1 << 24, 500):
        raw(file, entry(), bytes(8), length)
        with pytest.raises(BadSafetensors):
            read_checkpoint(file)
    file.write_bytes(b"1234567")
    with pytest.raises(BadSafetensors):
        read_checkpoint(file)


def test_a_file_that_ends_early_or_late_is_refused(file: Path) -> None:
    whole = file.read_bytes()
    for content in (whole[:-1], whole + b"\0"):
        file.write_bytes(content)
        with pytest.raises(BadSafetensors):
            read_checkpoint(file)


def test_a_file_that_shrinks_meanwhile_is_an_error(file: Path) -> None:
    _, tensors = read_checkpoint(file)
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(BadSafetensors):
        tensors["b"].read()


def test_a_pipe_is_not_waited_for(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(Unreadable):
        read_checkpoint(file)


def test_nothing_there_and_no_configuration_are_said(file: Path) -> None:
    with pytest.raises(NoCheckpoint):
        read_checkpoint(file.with_name("other.safetensors"))
    (file.parent / "config.json").unlink()
    with pytest.raises(Unreadable):
        read_checkpoint(file)


def test_damaged_bytes_are_refused_or_harmless(file: Path) -> None:
    whole, chance = file.read_bytes(), random.Random(5)
    for _ in range(300):
        content = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            content[chance.randrange(len(content))] = chance.randrange(256)
        file.write_bytes(content)
        try:
            for tensor in read_checkpoint(file)[1].values():
                assert tensor.read().nbytes == tensor.nbytes
        except DraftError:
            pass
