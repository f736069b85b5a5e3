"""The decoder's hash names weights: not files, not metadata, not layouts."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from engine.gguf.errors import GgufError, Truncated, Unreadable
from engine.gguf.identity import SAMPLE_BYTES, SAMPLES, decoder_hash
from engine.gguf.splits import open_model
from engine.gguf.types import GgmlType
from tests.support.gguf_bytes import GgufBytes, Tensor, text
from tests.support.tiny_models import tiny_model, write_tiny


def hash_of(folder: Path, model: GgufBytes) -> str:
    path = folder / f"{len(list(folder.iterdir()))}.gguf"
    path.write_bytes(model.encode())
    return decoder_hash(open_model(path))


def test_the_same_weights_have_the_same_hash(tmp_path: Path) -> None:
    model = tiny_model("qwen3", blocks=2)
    first = hash_of(tmp_path, model)
    assert len(first) == 64
    model.metadata.append(("general.license", text("mit")))
    model.tensors.reverse()
    assert hash_of(tmp_path, model) == first


def test_other_weights_of_the_same_shape_have_another_hash(tmp_path: Path) -> None:
    one = decoder_hash(open_model(write_tiny(tmp_path / "1.gguf", "llama", seed=1)))
    two = decoder_hash(open_model(write_tiny(tmp_path / "2.gguf", "llama", seed=2)))
    assert one != two


def tensor(shape: tuple[int, ...], type_: GgmlType, data: bytes, name: str = "t") -> GgufBytes:
    return GgufBytes([], [Tensor(name, shape, type_, data)])


def test_name_shape_and_type_count(tmp_path: Path) -> None:
    data = bytes(4096)
    hashes = {
        hash_of(tmp_path, tensor((1024,), GgmlType.F32, data)),
        hash_of(tmp_path, tensor((1024,), GgmlType.F32, data, "u")),
        hash_of(tmp_path, tensor((512, 2), GgmlType.F32, data)),
        hash_of(tmp_path, tensor((1024,), GgmlType.I32, data)),
    }
    assert len(hashes) == 4


@pytest.mark.parametrize("place", [0, SAMPLE_BYTES - 1, 4096 - SAMPLE_BYTES, 4095])
def test_a_changed_byte_in_the_first_or_last_sample_counts(tmp_path: Path, place: int) -> None:
    data = bytearray(4096)
    before = hash_of(tmp_path, tensor((4096,), GgmlType.I8, bytes(data)))
    data[place] = 1
    assert hash_of(tmp_path, tensor((4096,), GgmlType.I8, bytes(data))) != before


@pytest.mark.parametrize("size", [1, SAMPLES * SAMPLE_BYTES])
def test_a_small_tensor_counts_whole(tmp_path: Path, size: int) -> None:
    hashes = set[str]()
    for place in range(0, size, 17):
        data = bytearray(size)
        data[place] = 1
        hashes.add(hash_of(tmp_path, tensor((size,), GgmlType.I8, bytes(data))))
    assert len(hashes) == len(range(0, size, 17))


def test_a_file_of_many_gigabytes_is_named_at_once(tmp_path: Path) -> None:
    path = tmp_path / "large.gguf"
    head = GgufBytes([], [Tensor("t", (1 << 34,), GgmlType.I8, b"")]).encode()
    with path.open("wb") as file:
        file.write(head)
        file.truncate(len(head) + (1 << 34))  # sparse
    started = time.perf_counter()
    decoder_hash(open_model(path))
    assert time.perf_counter() - started < 1


def test_a_file_that_changed_meanwhile_is_a_clean_error(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "m.gguf", "llama", blocks=1)
    model = open_model(path)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(Truncated):
        decoder_hash(model)
    path.unlink()
    with pytest.raises(Unreadable) as caught:
        decoder_hash(model)
    assert isinstance(caught.value, GgufError)
