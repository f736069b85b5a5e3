"""Made-up models: they load, pair and compute; their shapes are what their names say."""

from __future__ import annotations

import math
import shutil
from collections import namedtuple
from pathlib import Path

import gguf
import numpy as np
import pytest

from engine.bench.errors import UnknownShape, UnknownType
from engine.bench.random_weights import PIECE, WEIGHT_TYPES, RandomWeights
from engine.bench.shapes import SHAPES, model_shape, tensors
from engine.bench.synth import weight_type, write_synthetic
from engine.gguf.types import GgmlType
from engine.gguf.validate import is_checked, validated_model
from engine.prefiller.errors import NoSpace, OutputExists
from engine.prefiller.formats import Layout, open_prefiller
from engine.prefiller.pairing import Verdict
from engine.runtime.loaded_model import LoadedModel
from engine.runtime.settings import LoadSettings
from tests.support.synthetic import small_shape

TEXT = "Any text can be read: naïve, 漢字, and a line\nbreak. "


@pytest.mark.parametrize(
    ("name", "billions"),
    [("0.6b", 0.596), ("1.7b", 1.721), ("4b", 4.022), ("8b", 8.191)],
)
def test_qwen3_shapes_have_the_published_number_of_weights(name: str, billions: float) -> None:
    weights = sum(math.prod(size) for _, size, _ in tensors(model_shape("qwen3", name)))
    assert weights / 1e9 == pytest.approx(billions, abs=0.001)


def test_the_hybrid_shape_has_one_attention_block_in_four() -> None:
    shape = model_shape("qwen35", "27B")
    names = [name for name, _, _ in tensors(shape)]
    assert sum(name.endswith("attn_q.weight") for name in names) == 16
    assert sum(name.endswith("ssm_out.weight") for name in names) == 48
    weights = sum(math.prod(size) for _, size, _ in tensors(shape))
    assert 26e9 < weights < 28e9


def test_every_shapes_rows_fit_every_type() -> None:
    for shape in SHAPES.values():
        for name, size, _ in tensors(shape):
            assert len(size) == 1 or "conv1d" in name or size[0] % PIECE == 0, name


@pytest.mark.parametrize("arch", ["qwen3", "qwen35"])
@pytest.mark.parametrize("type_", [GgmlType.Q8_0, GgmlType.IQ3_XXS, GgmlType.Q2_0])
def test_a_made_up_pair_loads_pairs_and_computes(
    tmp_path: Path, arch: str, type_: GgmlType
) -> None:
    made = write_synthetic(small_shape(arch), type_, tmp_path, "small")
    assert made.decoder.name == f"small-{type_.name}.gguf"
    assert is_checked(validated_model(made.decoder))
    settings = LoadSettings(context=256, threads=1)
    model = LoadedModel(made.decoder, prefiller=made.prefiller, settings=settings)
    assert model.pairing is not None
    assert model.pairing.verdict is Verdict.MATCHED_BY_HASH
    prompt = model.tokenize(TEXT, add_special=True, parse_special=False)
    assert b"".join(map(model.piece, prompt)).decode() == TEXT
    logits = {}
    for path in ("decoder", "resident", "odp"):
        model.keep(0)
        assert model.prefill(prompt, path=path, on_progress=lambda _: None).path == path
        logits[path] = model.logits()
        assert np.isfinite(logits[path]).all()
        assert 1 < logits[path].std() < 20
    model.close()
    assert np.array_equal(logits["odp"], logits["resident"])
    assert not np.array_equal(logits["odp"], logits["decoder"])


@pytest.mark.parametrize("type_", [GgmlType.F16, GgmlType.Q4_0, GgmlType.Q6_K, GgmlType.IQ4_XS])
def test_weights_decode_to_the_distribution_asked_for(tmp_path: Path, type_: GgmlType) -> None:
    count = 200 * PIECE
    weights = RandomWeights(type_, 0.02, np.random.default_rng(0))
    with (tmp_path / "weights").open("wb") as file:
        weights.write(file, count)
    raw = np.fromfile(tmp_path / "weights", np.uint8)
    assert raw.nbytes == count // type_.block.elements * type_.block.nbytes
    values = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType(int(type_)))
    assert values.std() == pytest.approx(0.02, rel=0.1)
    assert abs(values.mean()) < 0.001


def test_prefill_weights_decode_to_the_distribution_under_their_scale(tmp_path: Path) -> None:
    weights = RandomWeights(GgmlType.NVFP4, 0.02, np.random.default_rng(0), under_scale=True)
    with (tmp_path / "weights").open("wb") as file:
        weights.write(file, 200 * PIECE)
    raw = np.fromfile(tmp_path / "weights", np.uint8)
    values = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType.NVFP4) * weights.scale
    assert values.std() == pytest.approx(0.02, rel=0.1)


def test_the_prefiller_says_that_it_is_random(tmp_path: Path) -> None:
    made = write_synthetic(small_shape("qwen3"), GgmlType.Q8_0, tmp_path, "small")
    prefiller = open_prefiller(made.prefiller)
    assert prefiller.layout is Layout.TWOFOLD
    assert prefiller.origin.method == "random"
    assert len(prefiller.tensors) == 3 * 7


def test_the_same_seed_writes_the_same_bytes(tmp_path: Path) -> None:
    one, same, other = (
        write_synthetic(small_shape("qwen3"), GgmlType.Q4_0, tmp_path / name, "m", seed=seed)
        for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    assert one.decoder.read_bytes() == same.decoder.read_bytes()
    assert one.prefiller.read_bytes() == same.prefiller.read_bytes()
    assert one.decoder.read_bytes() != other.decoder.read_bytes()


def test_existing_files_are_kept_unless_told_otherwise(tmp_path: Path) -> None:
    made = write_synthetic(small_shape("qwen3"), GgmlType.Q8_0, tmp_path, "small")
    before = made.decoder.read_bytes()
    with pytest.raises(OutputExists):
        write_synthetic(small_shape("qwen3"), GgmlType.Q8_0, tmp_path, "small", seed=1)
    assert made.decoder.read_bytes() == before
    write_synthetic(small_shape("qwen3"), GgmlType.Q8_0, tmp_path, "small", seed=1, overwrite=True)
    assert made.decoder.read_bytes() != before


def test_a_disk_without_room_for_both_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 10**9 - 5000, 5000))
    with pytest.raises(NoSpace) as refused:
        write_synthetic(small_shape("qwen3"), GgmlType.Q8_0, tmp_path, "small")
    monkeypatch.undo()
    assert refused.value.data["free"] == 5000
    assert list(tmp_path.iterdir()) == []
    made = write_synthetic(small_shape("qwen3"), GgmlType.Q8_0, tmp_path, "small")
    both = made.decoder.stat().st_size + made.prefiller.stat().st_size
    assert 0.9 * both < refused.value.data["needed"] <= both


@pytest.mark.parametrize("share", [0.1, 0.9])
def test_an_interrupt_leaves_nothing_behind(tmp_path: Path, share: float) -> None:
    def interrupt(done: int, total: int) -> None:
        if done > share * total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_synthetic(small_shape("qwen3"), GgmlType.Q8_0, tmp_path, "small", progress=interrupt)
    assert list(tmp_path.iterdir()) == []


def test_progress_ends_with_all_bytes_done(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    write_synthetic(
        small_shape("qwen35"),
        GgmlType.Q8_0,
        tmp_path,
        "small",
        progress=lambda done, total: seen.append((done, total)),
    )
    done = [one for one, _ in seen]
    assert done == sorted(done)
    # The total counts the decoder's header too.
    assert 0.95 * seen[-1][1] < done[-1] <= seen[-1][1]


def test_names_that_are_not_known_are_refused_with_those_that_are() -> None:
    with pytest.raises(UnknownShape, match=r"qwen3 1\.7b"):
        model_shape("qwen3", "2b")
    with pytest.raises(UnknownType, match="IQ2_XXS"):
        weight_type("I8")
    assert weight_type("iq2_xxs") is GgmlType.IQ2_XXS
    assert GgmlType.NVFP4 in WEIGHT_TYPES
