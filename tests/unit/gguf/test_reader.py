"""The reader reads honest files as gguf-py does, and refuses every kind of dishonest one."""

from __future__ import annotations

import os
import struct
import time
import tracemalloc
from pathlib import Path

import gguf
import pytest

from engine import paths
from engine.gguf.errors import (
    BadAlignment,
    BadDimensions,
    BadName,
    BadOffset,
    BadRow,
    BadTensorType,
    BadValueType,
    Duplicate,
    GgufError,
    NotGguf,
    NotUtf8,
    Overlap,
    TooMany,
    Truncated,
    Unreadable,
    WrongByteOrder,
    WrongVersion,
)
from engine.gguf.reader import MAX_HEADER_BYTES, MAX_KEYS, GgufArray, read_gguf
from engine.gguf.types import BLOCK_SIZES, GgmlType, ValueType
from engine.words import sentence
from tests.support.gguf_bytes import (
    GgufBytes,
    Tensor,
    Value,
    array,
    f32,
    f32_tensor,
    flag,
    string,
    text,
    u32,
)
from tests.support.tiny_models import ARCHS, write_tiny

ANY_VALUE = array(ValueType.STRING, ["a", "ü", ""])


def valid() -> GgufBytes:
    return GgufBytes(
        [
            ("general.architecture", text("llama")),
            ("a.count", u32(7)),
            ("a.rate", f32(0.5)),
            ("a.flag", flag(True)),
            ("a.list", array(ValueType.INT32, [-1, 2])),
            ("a.words", ANY_VALUE),
        ],
        [f32_tensor("one", (4, 2)), f32_tensor("two", (3,))],
    )


def refusal(folder: Path, content: bytes) -> GgufError:
    """The error for `content`, which must be quick, small, and have its sentence."""
    path = folder / "bad.gguf"
    path.write_bytes(content)
    tracemalloc.start()
    started = time.perf_counter()
    try:
        with pytest.raises(GgufError) as caught:
            read_gguf(path)
        assert time.perf_counter() - started < 0.5
        assert tracemalloc.get_traced_memory()[1] < (4 << 20) + len(content)
    finally:
        tracemalloc.stop()
    assert sentence(caught.value).startswith(str(path))
    return caught.value


def test_metadata_and_tensors_come_back_as_written(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(valid().encode())
    file = read_gguf(path)
    assert file.version == 3
    assert file.alignment == 32
    assert file.file_size == path.stat().st_size
    assert file.metadata["a.count"] == 7
    assert file.metadata["a.rate"] == 0.5
    assert file.metadata["a.flag"] is True
    words = file.metadata["a.words"]
    assert isinstance(words, GgufArray)
    assert list(words) == ["a", "ü", ""]
    numbers = file.metadata["a.list"]
    assert isinstance(numbers, GgufArray)
    assert numbers[0] == -1
    assert file.value_types["a.count"] is ValueType.UINT32
    one, two = file.tensors
    assert (one.name, one.shape, one.type, one.nbytes) == ("one", (4, 2), GgmlType.F32, 32)
    assert two.offset == 32
    assert two.absolute_offset == file.data_offset + 32
    assert path.read_bytes()[two.absolute_offset :][:4] == struct.pack("<f", 1.0)


@pytest.mark.parametrize("arch", ARCHS)
def test_a_model_reads_as_in_gguf_py(tmp_path: Path, arch: str) -> None:
    path = write_tiny(tmp_path / "m.gguf", arch, blocks=4, weight_type="Q4_0")
    assert_reads_as_in_gguf_py(path)


def test_the_demo_model_reads_as_in_gguf_py() -> None:
    assert_reads_as_in_gguf_py(paths.demo_model())


def assert_reads_as_in_gguf_py(path: Path) -> None:
    ours, theirs = read_gguf(path), gguf.GGUFReader(path)
    assert ours.data_offset == theirs.data_offset
    assert ours.alignment == theirs.alignment
    for key, value in ours.metadata.items():
        expected = theirs.fields[key].contents()
        assert (list(value) if isinstance(value, GgufArray) else value) == expected
    extra = {"GGUF.version", "GGUF.tensor_count", "GGUF.kv_count"}
    assert set(theirs.fields) - set(ours.metadata) == extra
    assert len(ours.tensors) == len(theirs.tensors)
    for tensor, expected in zip(ours.tensors, theirs.tensors, strict=True):
        assert tensor.name == expected.name
        assert tensor.shape == tuple(expected.shape.tolist())
        assert tensor.type == expected.tensor_type
        assert tensor.absolute_offset == expected.data_offset
        assert tensor.nbytes == expected.n_bytes


def test_block_sizes_are_gguf_pys() -> None:
    theirs = {int(type_): sizes for type_, sizes in gguf.GGML_QUANT_SIZES.items()}
    for type_, size in BLOCK_SIZES.items():
        if int(type_) in theirs:
            assert (size.elements, size.nbytes) == theirs[int(type_)]
    newer = {type_.name for type_ in GgmlType if int(type_) not in theirs}
    assert newer <= {"Q2_0"}


def test_half_a_million_strings_take_well_under_a_second(tmp_path: Path) -> None:
    words = [f"token {number}" for number in range(250_000)]
    path = tmp_path / "large.gguf"
    path.write_bytes(
        GgufBytes(
            [("a", array(ValueType.STRING, words)), ("b", array(ValueType.STRING, words))]
        ).encode()
    )
    started = time.process_time()
    file = read_gguf(path)
    assert time.process_time() - started < 0.8
    value = file.metadata["b"]
    assert isinstance(value, GgufArray)
    assert value[249_999] == "token 249999"


def test_a_path_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="No such file"):
        read_gguf(tmp_path / "missing.gguf")
    with pytest.raises(Unreadable, match="regular"):
        read_gguf(tmp_path)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.gguf"
    os.mkfifo(pipe)
    with pytest.raises(Unreadable, match="regular"):
        read_gguf(pipe)


@pytest.mark.parametrize("content", [b"", b"GG", b"GGML" + bytes(60), b"PK\3\4" + bytes(60)])
def test_another_file_is_not_gguf(tmp_path: Path, content: bytes) -> None:
    assert isinstance(refusal(tmp_path, content), NotGguf)


@pytest.mark.parametrize("version", [0, 1, 4, 1 << 31 | 5])
def test_an_unknown_version_is_refused(tmp_path: Path, version: int) -> None:
    model = valid()
    model.version = version
    assert isinstance(refusal(tmp_path, model.encode()), WrongVersion)


def test_a_big_endian_file_is_told_apart(tmp_path: Path) -> None:
    content = b"GGUF" + struct.pack(">IQQ", 3, 0, 0)
    assert isinstance(refusal(tmp_path, content), WrongByteOrder)


def test_every_shorter_file_is_truncated(tmp_path: Path) -> None:
    content = valid().encode()[:-20]  # the last tensor is 12 bytes, padded to 32
    for length in range(4, len(content), 3):
        assert isinstance(refusal(tmp_path, content[:length]), Truncated)
    path = tmp_path / "whole.gguf"
    path.write_bytes(content)
    assert len(read_gguf(path).tensors) == 2


@pytest.mark.parametrize("count", [MAX_KEYS + 1, 1 << 40, (1 << 64) - 1])
def test_an_absurd_count_of_keys_or_tensors_is_refused(tmp_path: Path, count: int) -> None:
    model = valid()
    model.n_metadata = count
    assert isinstance(refusal(tmp_path, model.encode()), TooMany)
    model = valid()
    model.n_tensors = count
    assert isinstance(refusal(tmp_path, model.encode()), TooMany)


def test_more_keys_than_bytes_is_truncated(tmp_path: Path) -> None:
    model = valid()
    model.n_metadata = MAX_KEYS
    assert isinstance(refusal(tmp_path, model.encode()), Truncated)


@pytest.mark.parametrize("item", [ValueType.UINT8, ValueType.FLOAT64, ValueType.STRING])
@pytest.mark.parametrize("count", [1 << 20, 1 << 61, (1 << 64) - 1])
def test_an_array_longer_than_the_file_is_refused(
    tmp_path: Path, item: ValueType, count: int
) -> None:
    value = array(item, [])
    value.count = count
    error = refusal(tmp_path, GgufBytes([("a", value)]).encode())
    assert isinstance(error, Truncated | TooMany)


@pytest.mark.parametrize("length", [1000, 1 << 40, (1 << 64) - 1])
def test_a_string_longer_than_the_file_is_refused(tmp_path: Path, length: int) -> None:
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 1)
    key = struct.pack("<Q", length) + b"abcdefghijklm"
    assert isinstance(refusal(tmp_path, head + key), Truncated)
    value = string("k") + struct.pack("<IQ", ValueType.STRING, length) + b"abc"
    assert isinstance(refusal(tmp_path, head + value), Truncated)


def test_metadata_of_an_absurd_size_is_refused_without_being_read(tmp_path: Path) -> None:
    path = tmp_path / "sparse.gguf"
    head = GgufBytes([("a", Value(ValueType.ARRAY, [], ValueType.UINT8, 1 << 32))]).encode()
    with path.open("wb") as file:
        file.write(head)
        file.truncate(1 << 33)  # no bytes on the disk
    tracemalloc.start()
    with pytest.raises(TooMany) as caught:
        read_gguf(path)
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()
    assert caught.value.data["limit"] == MAX_HEADER_BYTES


def test_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    bad = b"\xff\xfe"
    for model in (
        GgufBytes([(bad, u32(1))]),
        GgufBytes([("a", text(bad))]),
        GgufBytes([("a", array(ValueType.STRING, ["ok", bad]))]),
        GgufBytes([], [Tensor(bad, (1,), 0, bytes(4))]),
    ):
        assert isinstance(refusal(tmp_path, model.encode()), NotUtf8)


@pytest.mark.parametrize("name", ["", "a\0b", "n" * 64, "ü" * 32])
def test_an_impossible_tensor_name_is_refused(tmp_path: Path, name: str) -> None:
    model = GgufBytes([], [f32_tensor(name, (1,))])
    assert isinstance(refusal(tmp_path, model.encode()), BadName)


@pytest.mark.parametrize("key", ["", "a\0b", "k" * 65536])
def test_an_impossible_key_is_refused(tmp_path: Path, key: str) -> None:
    assert isinstance(refusal(tmp_path, GgufBytes([(key, u32(1))]).encode()), BadName)


def test_a_name_that_appears_twice_is_refused(tmp_path: Path) -> None:
    model = GgufBytes([("k", u32(1)), ("k", u32(1))])
    assert isinstance(refusal(tmp_path, model.encode()), Duplicate)
    model = GgufBytes([], [f32_tensor("t", (1,)), f32_tensor("t", (1,))])
    assert isinstance(refusal(tmp_path, model.encode()), Duplicate)


def test_an_unknown_value_type_is_refused(tmp_path: Path) -> None:
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + string("k")
    for value in (
        struct.pack("<IQ", 13, 0),
        struct.pack("<IIQ", ValueType.ARRAY, 99, 0),
        struct.pack("<IIQ", ValueType.ARRAY, ValueType.ARRAY, 1),
    ):
        assert isinstance(refusal(tmp_path, head + value), BadValueType)


@pytest.mark.parametrize("value", [u32(0), u32(3), u32(48), u32(1 << 31), text("32"), f32(32.0)])
def test_an_alignment_that_is_no_power_of_two_is_refused(tmp_path: Path, value: Value) -> None:
    model = GgufBytes([("general.alignment", value)], [f32_tensor("t", (1,))])
    assert isinstance(refusal(tmp_path, model.encode()), BadAlignment)


@pytest.mark.parametrize("alignment", [1, 64, 4096])
def test_the_files_own_alignment_is_followed(tmp_path: Path, alignment: int) -> None:
    model = valid()
    model.alignment = alignment
    model.metadata.append(("general.alignment", u32(alignment)))
    path = tmp_path / "a.gguf"
    path.write_bytes(model.encode())
    file = read_gguf(path)
    assert file.data_offset % alignment == 0
    last = file.tensors[-1]
    assert path.read_bytes()[last.absolute_offset :][:4] == struct.pack("<f", 1.0)


@pytest.mark.parametrize(
    "shape", [(0,), (4, 0), (1 << 63,), (1 << 32, 1 << 32), (1 << 40, 1 << 20, 1 << 20)]
)
def test_a_product_of_dimensions_that_overflows_is_refused(
    tmp_path: Path, shape: tuple[int, ...]
) -> None:
    model = GgufBytes([], [Tensor("t", shape, GgmlType.F32, bytes(64))])
    assert isinstance(refusal(tmp_path, model.encode()), BadDimensions)


@pytest.mark.parametrize("n_dims", [5, 1 << 20, (1 << 32) - 1])
def test_more_than_four_dimensions_are_refused(tmp_path: Path, n_dims: int) -> None:
    model = GgufBytes([], [Tensor("t", (1,), GgmlType.F32, bytes(64), n_dims=n_dims)])
    assert isinstance(refusal(tmp_path, model.encode()), BadDimensions)


@pytest.mark.parametrize("type_", [4, 9, 15, 31, 38, 43, (1 << 32) - 1])
def test_a_type_that_no_tensor_has_is_refused(tmp_path: Path, type_: int) -> None:
    model = GgufBytes([], [Tensor("t", (256,), type_, bytes(1024))])
    assert isinstance(refusal(tmp_path, model.encode()), BadTensorType)


@pytest.mark.parametrize("type_", [t for t in GgmlType if t.block.elements > 1])
def test_rows_that_are_not_whole_blocks_are_refused(tmp_path: Path, type_: GgmlType) -> None:
    model = GgufBytes([], [Tensor("t", (type_.block.elements + 16, 4), type_, bytes(4096))])
    assert isinstance(refusal(tmp_path, model.encode()), BadRow)


def test_a_tensor_past_the_end_is_truncated(tmp_path: Path) -> None:
    for offset in (64, 1 << 40, (1 << 64) - 32):
        model = GgufBytes([], [Tensor("t", (8,), GgmlType.F32, bytes(32), offset=offset)])
        assert isinstance(refusal(tmp_path, model.encode()), Truncated)
    model = GgufBytes([], [Tensor("t", (1 << 40,), GgmlType.F32, bytes(32))])
    assert isinstance(refusal(tmp_path, model.encode()), Truncated)


def test_a_tensor_off_the_alignment_is_refused(tmp_path: Path) -> None:
    model = GgufBytes([], [Tensor("t", (2,), GgmlType.F32, bytes(64), offset=4)])
    assert isinstance(refusal(tmp_path, model.encode()), BadOffset)


def test_tensors_that_share_bytes_are_refused(tmp_path: Path) -> None:
    model = GgufBytes(
        [],
        [
            Tensor("a", (16,), GgmlType.F32, bytes(64)),
            Tensor("b", (8,), GgmlType.F32, bytes(32), offset=32),
        ],
    )
    assert isinstance(refusal(tmp_path, model.encode()), Overlap)
