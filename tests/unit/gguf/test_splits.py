"""A model split over files opens as one, from any part, or is refused with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.gguf.errors import Duplicate, GgufError, SplitMissing, SplitMixed, TooMany
from engine.gguf.identity import decoder_hash
from engine.gguf.splits import open_model, part_paths
from engine.gguf.types import ValueType
from engine.gguf.validate import validated_model
from engine.words import sentence
from tests.support.gguf_bytes import GgufBytes, Value, u32
from tests.support.library_load import load_all
from tests.support.tiny_models import tiny_model


def split(folder: Path, model: GgufBytes, count: int = 3) -> list[Path]:
    paths = [folder / f"m-{no + 1:05d}-of-{count:05d}.gguf" for no in range(count)]
    for no, path in enumerate(paths):
        part = GgufBytes(
            [
                *(model.metadata if no == 0 else []),
                ("split.no", Value(ValueType.UINT16, no)),
                ("split.count", Value(ValueType.UINT16, count)),
                ("split.tensors.count", Value(ValueType.INT32, len(model.tensors))),
            ],
            model.tensors[no::count],
        )
        path.write_bytes(part.encode())
    return paths


def change(path: Path, key: str, value: Value | None, model: GgufBytes, no: int) -> None:
    """Rewrite part `no` of three with one split key changed, or left out."""
    keys = {
        "split.no": Value(ValueType.UINT16, no),
        "split.count": Value(ValueType.UINT16, 3),
        "split.tensors.count": Value(ValueType.INT32, len(model.tensors)),
    }
    pairs = [(name, one) for name, one in keys.items() if name != key]
    if value is not None:
        pairs.append((key, value))
    metadata = [*(model.metadata if no == 0 else []), *pairs]
    path.write_bytes(GgufBytes(metadata, model.tensors[no::3]).encode())


def refusal(path: Path) -> GgufError:
    with pytest.raises(GgufError) as caught:
        open_model(path)
    assert sentence(caught.value).startswith(str(path.parent))
    return caught.value


@pytest.fixture
def model() -> GgufBytes:
    return tiny_model("llama", blocks=2, width=64, ffn=64)


@pytest.mark.parametrize("chosen", [0, 1, 2])
def test_any_part_opens_the_whole(tmp_path: Path, model: GgufBytes, chosen: int) -> None:
    paths = split(tmp_path, model)
    opened = open_model(paths[chosen])
    assert [file.path for file in opened.files] == paths
    assert opened.path == paths[0]
    assert len(opened.tensors) == len(model.tensors)
    assert opened.by_name[str(model.tensors[1].name)].path == paths[1]
    assert opened.metadata["general.architecture"] == "llama"
    tensor = opened.by_name["output.weight"]
    content = tensor.path.read_bytes()[tensor.absolute_offset :][: tensor.nbytes]
    assert content == next(t.data for t in model.tensors if t.name == "output.weight")


def test_a_split_model_validates_and_runs_in_the_library(tmp_path: Path, model: GgufBytes) -> None:
    paths = split(tmp_path, model)
    assert validated_model(paths[2]).path == paths[0]
    assert [one.outcome for one in load_all(paths[:1])] == ["ran"]


def test_splitting_does_not_change_the_hash(tmp_path: Path, model: GgufBytes) -> None:
    whole = tmp_path / "whole.gguf"
    whole.write_bytes(model.encode())
    parts = split(tmp_path, model)
    assert decoder_hash(open_model(parts[0])) == decoder_hash(open_model(whole))


def test_missing_parts_are_named(tmp_path: Path, model: GgufBytes) -> None:
    paths = split(tmp_path, model)
    paths[0].unlink()
    paths[2].unlink()
    error = refusal(paths[1])
    assert isinstance(error, SplitMissing)
    assert paths[0].name in error.data["missing"]
    assert paths[2].name in error.data["missing"]
    assert paths[1].name not in error.data["missing"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("split.no", Value(ValueType.UINT16, 2)),
        ("split.no", u32(1)),  # right, but of a type that aborts the library
        ("split.no", None),
        ("split.count", Value(ValueType.UINT16, 4)),
        ("split.count", None),
        ("split.tensors.count", Value(ValueType.INT32, 1)),
        ("split.tensors.count", None),
    ],
)
def test_a_part_of_another_set_is_refused(
    tmp_path: Path, model: GgufBytes, key: str, value: Value | None
) -> None:
    paths = split(tmp_path, model)
    change(paths[1], key, value, model, no=1)
    error = refusal(paths[0])
    assert isinstance(error, SplitMixed)
    assert error.data["part"] == paths[1].name
    assert error.data["key"] == key


def test_a_tensor_in_two_parts_is_refused(tmp_path: Path, model: GgufBytes) -> None:
    paths = split(tmp_path, model)
    doubled = GgufBytes(model.metadata, [*model.tensors])
    doubled.tensors[1] = doubled.tensors[0]
    for no, path in enumerate(paths):
        change(path, "", None, doubled, no)
    error = refusal(paths[0])
    assert isinstance(error, Duplicate)
    assert error.data["name"] == model.tensors[0].name


def test_a_part_under_a_name_of_its_own_is_refused(tmp_path: Path, model: GgufBytes) -> None:
    renamed = split(tmp_path, model)[0].rename(tmp_path / "renamed.gguf")
    assert isinstance(refusal(renamed), SplitMixed)


def test_a_whole_model_may_have_a_parts_name(tmp_path: Path, model: GgufBytes) -> None:
    path = tmp_path / "m-00002-of-00005.gguf"
    path.write_bytes(model.encode())
    assert len(open_model(path).files) == 1


@pytest.mark.parametrize("name", ["m.gguf", "m-1-of-2.gguf", "m-00003-of-00002.gguf"])
def test_other_names_name_no_set(name: str) -> None:
    assert part_paths(Path(name)) == [Path(name)]


def test_an_absurd_number_of_parts_is_refused() -> None:
    with pytest.raises(TooMany):
        part_paths(Path("m-00001-of-99999.gguf"))
