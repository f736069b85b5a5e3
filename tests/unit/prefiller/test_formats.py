"""All accepted layouts open as the same prefiller; what is not sound is refused by its reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.gguf.errors import GgufError
from engine.gguf.types import GgmlType, ValueType
from engine.prefiller import errors
from engine.prefiller.build import build_prefiller
from engine.prefiller.formats import (
    FORMAT_KEY,
    SCALE_KEY,
    TENSOR_COUNT_KEY,
    Layout,
    Prefiller,
    open_prefiller,
)
from tests.support.gguf_bytes import GgufBytes, Tensor, Value, f32, text, u32
from tests.support.prefiller_files import (
    f32_bytes,
    published_parts,
    tensor_bytes,
    upstream,
    write_published,
)
from tests.support.tiny_models import write_tiny


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Prefiller:
    folder = tmp_path_factory.mktemp("ours")
    return build_prefiller(write_tiny(folder / "d.gguf", "qwen35", blocks=4), folder / "p.gguf")


def contents(prefiller: Prefiller) -> list[tuple[object, ...]]:
    return [
        (tensor.name, tensor.block, tensor.shape, tensor.scale, tensor_bytes(prefiller, tensor))
        for tensor in prefiller.tensors
    ]


def test_the_published_layout_holds_the_same(tmp_path: Path, ours: Prefiller) -> None:
    folder = write_published(tmp_path / "IQ1_S", ours)
    prefiller = open_prefiller(folder)
    assert prefiller.layout is Layout.PUBLISHED
    assert len(prefiller.files) == 4
    assert contents(prefiller) == contents(ours)


def test_any_part_opens_the_whole_set(tmp_path: Path, ours: Prefiller) -> None:
    folder = write_published(tmp_path / "IQ1_S", ours)
    third = sorted(folder.iterdir())[2]
    assert contents(open_prefiller(third)) == contents(ours)


def test_upstreams_layout_holds_the_same(tmp_path: Path, ours: Prefiller) -> None:
    path = tmp_path / "model-nvfp4.gguf"
    path.write_bytes(upstream(ours).encode())
    prefiller = open_prefiller(path)
    assert prefiller.layout is Layout.UPSTREAM
    assert contents(prefiller) == contents(ours)


def test_ours_says_how_it_was_made(ours: Prefiller) -> None:
    assert ours.layout is Layout.TWOFOLD
    assert ours.origin.method == "rtn"
    assert (ours.origin.tool or "").startswith("twofold ")
    assert ours.origin.decoder_name == "tiny qwen35 0"
    assert ours.decoder_hash == ours.origin.source_hash


def test_tensors_go_block_by_block_and_start_on_pages(ours: Prefiller) -> None:
    assert [tensor.block for tensor in ours.tensors] == sorted(t.block for t in ours.tensors)
    ends = [tensor.offset + tensor.nbytes for tensor in ours.tensors]
    starts = [tensor.offset for tensor in ours.tensors[1:]]
    assert all(0 <= start - end < 4096 for end, start in zip(ends, starts, strict=False))
    assert all(tensor.offset % 4096 == 0 for tensor in ours.tensors)


def test_a_missing_part_is_named(tmp_path: Path, ours: Prefiller) -> None:
    folder = write_published(tmp_path / "IQ1_S", ours)
    lost = sorted(folder.iterdir())[1]
    lost.unlink()
    with pytest.raises(errors.PartsMissing) as refused:
        open_prefiller(folder)
    assert refused.value.data["missing"] == lost.name


def test_a_folder_with_two_prefillers_is_ambiguous(tmp_path: Path, ours: Prefiller) -> None:
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).write_bytes(ours.path.read_bytes())
    with pytest.raises(errors.SeveralFiles) as refused:
        open_prefiller(tmp_path)
    assert refused.value.data["files"] == "a.gguf, b.gguf"


@pytest.mark.parametrize("name", ["nothing.gguf", "folder"])
def test_nothing_there_is_said_so(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(errors.NotFound):
        open_prefiller(tmp_path / name)


def test_parts_of_two_prefillers_do_not_mix(tmp_path: Path, ours: Prefiller) -> None:
    folder = write_published(tmp_path / "IQ1_S", ours)
    part = published_parts(ours)[1]
    part.metadata[0] = ("general.architecture", text("llama"))
    sorted(folder.iterdir())[1].write_bytes(part.encode())
    with pytest.raises(errors.MixedParts):
        open_prefiller(folder)


def test_a_tensor_in_two_parts_is_refused(tmp_path: Path, ours: Prefiller) -> None:
    folder = write_published(tmp_path / "IQ1_S", ours)
    first, second = sorted(folder.iterdir())[:2]
    second.write_bytes(first.read_bytes())
    with pytest.raises(errors.DuplicateTensor):
        open_prefiller(folder)


NAME = "blk.0.attn_q.weight"
BLOCK = bytes(36 * 2)


def small(*, scale: Value | None = None, **changes: object) -> GgufBytes:
    """One sound NVFP4 tensor of two rows, unless changed."""
    keys: list[tuple[str | bytes, Value]] = [("general.architecture", text("llama"))]
    keys.append((SCALE_KEY + NAME, scale or f32(0.5)))
    tensor: dict[str, object] = {
        "name": NAME,
        "shape": (64, 2),
        "type": GgmlType.NVFP4,
        "data": BLOCK,
        **changes,
    }
    return GgufBytes(keys, [Tensor(**tensor)])  # type: ignore[arg-type]


def refusal(tmp_path: Path, file: GgufBytes) -> errors.PrefillerError:
    path = tmp_path / "p.gguf"
    path.write_bytes(file.encode())
    with pytest.raises(errors.PrefillerError) as refused:
        open_prefiller(path)
    return refused.value


def test_the_smallest_prefiller_opens(tmp_path: Path) -> None:
    path = tmp_path / "p.gguf"
    path.write_bytes(small().encode())
    (tensor,) = open_prefiller(path).tensors
    assert (tensor.scale, tensor.shape, tensor.nbytes) == (0.5, (64, 2), 72)


@pytest.mark.parametrize(
    "scale",
    [f32(0.0), f32(-1.0), f32(float("inf")), f32(float("nan")), u32(1), text("1")],
)
def test_a_scale_must_be_a_number_above_zero(tmp_path: Path, scale: Value) -> None:
    assert isinstance(refusal(tmp_path, small(scale=scale)), errors.BadScale)


@pytest.mark.parametrize(
    ("type_", "data"), [(GgmlType.F32, f32_bytes(0)), (GgmlType.F16, bytes(2))]
)
def test_a_scale_tensor_must_be_a_number_above_zero(
    tmp_path: Path, type_: GgmlType, data: bytes
) -> None:
    file = small()
    file.metadata.pop()
    file.tensors.append(Tensor("blk.0.attn_q.scale", (1,), type_, data))
    assert isinstance(refusal(tmp_path, file), errors.BadScale)


def test_a_tensor_needs_a_scale(tmp_path: Path) -> None:
    file = small()
    file.metadata.pop()
    assert isinstance(refusal(tmp_path, file), errors.NoScale)


def test_two_scales_contradict(tmp_path: Path) -> None:
    file = small()
    file.tensors.append(Tensor("blk.0.attn_q.scale", (1,), GgmlType.F32, f32_bytes(0.5)))
    assert isinstance(refusal(tmp_path, file), errors.TwoScales)


def test_another_type_is_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path, small(type=GgmlType.F16, data=bytes(256)))
    assert isinstance(error, errors.WrongType)
    assert error.data["type"] == "F16"


@pytest.mark.parametrize("shape", [(64,), (64, 1, 2)])
def test_a_weight_is_a_matrix(tmp_path: Path, shape: tuple[int, ...]) -> None:
    assert isinstance(refusal(tmp_path, small(shape=shape)), errors.WrongDimensions)


@pytest.mark.parametrize(
    "name",
    ["output.weight", "blk.0.ssm_alpha.weight", "blk.0.ffn_up_exps.weight", "blk.00.attn_q.weight"],
)
def test_a_tensor_that_is_no_block_linear_is_refused(tmp_path: Path, name: str) -> None:
    error = refusal(tmp_path, small(name=name))
    assert isinstance(error, errors.ExtraTensor)
    assert error.data["tensor"] == name


def test_a_decoder_is_told_from_a_prefiller(tmp_path: Path) -> None:
    assert isinstance(refusal(tmp_path, small(name="token_embd.weight")), errors.WholeModel)


def test_a_file_that_lost_tensors_is_refused(tmp_path: Path) -> None:
    file = small()
    file.metadata.append((TENSOR_COUNT_KEY, u32(2)))
    error = refusal(tmp_path, file)
    assert isinstance(error, errors.MissingTensors)
    assert (error.data["found"], error.data["expected"]) == (1, 2)


@pytest.mark.parametrize("version", [u32(2), text("1"), Value(ValueType.FLOAT32, 9.0)])
def test_a_newer_format_is_refused(tmp_path: Path, version: Value) -> None:
    file = small()
    file.metadata.append((FORMAT_KEY, version))
    assert isinstance(refusal(tmp_path, file), errors.NewerFormat)


def test_a_file_without_weights_is_no_prefiller(tmp_path: Path) -> None:
    file = small()
    file.tensors.clear()
    assert isinstance(refusal(tmp_path, file), errors.Empty)


def test_a_truncated_file_is_refused(tmp_path: Path, ours: Prefiller) -> None:
    path = tmp_path / "p.gguf"
    path.write_bytes(ours.path.read_bytes()[:-5000])
    with pytest.raises(GgufError):
        open_prefiller(path)
