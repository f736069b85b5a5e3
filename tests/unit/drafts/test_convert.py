"""Drafters' published checkpoints become GGUF files that say the same, or are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.drafts import errors
from engine.drafts.convert import TARGET_HASH_KEY, convert_draft
from engine.gguf.identity import decoder_hash
from engine.gguf.reader import GgufArray
from engine.gguf.splits import GgufModel, open_model
from engine.prefiller.errors import OutputExists
from tests.support.drafts import shapes
from tests.support.drafts.checkpoints import (
    published_name,
    write_checkpoint,
    write_safetensors,
)
from tests.support.drafts.library_run import LibraryRun
from tests.support.tiny_models import write_tiny

W, F, V = shapes.WIDTH, shapes.FFN, shapes.VOCAB
QUERY, KEY = shapes.HEADS * shapes.HEAD, shapes.KV_HEADS * shapes.HEAD
Weights = dict[str, NDArray[Any]]


def block(number: int, inputs: int = W) -> dict[str, tuple[int, ...]]:
    named = {
        "attn_q": (QUERY, inputs),
        "attn_k": (KEY, inputs),
        "attn_v": (KEY, inputs),
        "attn_output": (W, QUERY),
        "ffn_norm": (W,),
        "ffn_gate": (F, W),
        "ffn_up": (F, W),
        "ffn_down": (W, F),
    }
    return {f"blk.{number}.{name}.weight": shape for name, shape in named.items()}


SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "medusa": {
        f"medusa.{head}.{name}": shape
        for head in range(shapes.MEDUSA_HEADS)
        for name, shape in {
            "0.weight": (W, W),
            "0.bias": (W,),
            "output.weight": (V, W),
        }.items()
    },
    "eagle1": {"fc.weight": (W, 2 * W), "fc.bias": (W,), **block(0)},
    "eagle3": {
        "fc.weight": (W, 3 * W),
        "output_norm.weight": (W,),
        "output.weight": (V, W),
        "token_embd.weight": (V, W),
        "blk.0.attn_norm.weight": (W,),
        "blk.0.attn_norm_2.weight": (W,),
        **block(0, 2 * W),
    },
    "dflash": {
        "fc.weight": (W, len(shapes.TAPS) * W),
        "enc.output_norm.weight": (W,),
        "output_norm.weight": (W,),
        **{
            name: shape
            for number in range(shapes.DFLASH_BLOCKS)
            for name, shape in {
                **block(number),
                f"blk.{number}.attn_norm.weight": (W,),
                f"blk.{number}.attn_q_norm.weight": (shapes.HEAD,),
                f"blk.{number}.attn_k_norm.weight": (shapes.HEAD,),
            }.items()
        },
    },
}
ARCHITECTURES = {"medusa": "medusa", "eagle1": "eagle", "eagle3": "eagle3", "dflash": "dflash"}


def random_weights(method: str) -> Weights:
    random = np.random.default_rng(1)
    return {
        name: random.standard_normal(shape).astype(np.float32) * np.float32(0.2)
        for name, shape in SHAPES[method].items()
    }


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("target") / "target.gguf"
    return write_tiny(path, "qwen3", width=W, vocab=V, weight_type="F16", context=4096)


def values(model: GgufModel, name: str) -> NDArray[Any]:
    tensor = model.by_name[name]
    kind = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16, "I64": np.int64}
    raw = np.fromfile(tensor.path, np.uint8, tensor.nbytes, offset=tensor.absolute_offset)
    return raw.view(kind[tensor.type.name]).reshape(tensor.shape[::-1])


@pytest.mark.parametrize("method", SHAPES)
def test_every_weight_is_kept_and_the_target_is_named(
    tmp_path: Path, target: Path, method: str
) -> None:
    weights = random_weights(method)
    folder = write_checkpoint(tmp_path / "in", method, weights)
    done = convert_draft(folder, tmp_path / "out.gguf", target)
    model = open_model(done.path)
    assert model.metadata["general.architecture"] == ARCHITECTURES[method]
    assert model.metadata[TARGET_HASH_KEY] == decoder_hash(open_model(target))
    assert set(model.by_name) == set(weights)
    for name, wanted in weights.items():
        assert np.array_equal(values(model, name), wanted), name


def test_taps_are_the_inputs_of_the_blocks_after_those_that_dflash_names(
    tmp_path: Path, target: Path
) -> None:
    for method in ("dflash", "eagle3"):
        folder = write_checkpoint(tmp_path / method, method, random_weights(method))
        model = open_model(convert_draft(folder, tmp_path / f"{method}.gguf", target).path)
        taps = model.metadata[f"{method}.target_layers"]
        assert isinstance(taps, GgufArray)
        assert list(taps) == list(shapes.TAPS)


@pytest.mark.parametrize("method", ["eagle3", "dflash"])
def test_the_library_runs_what_was_converted(tmp_path: Path, target: Path, method: str) -> None:
    folder = write_checkpoint(tmp_path / "in", method, random_weights(method))
    draft = convert_draft(folder, tmp_path / "out.gguf", target).path
    with (
        LibraryRun(target, taps=shapes.TAPS) as model,
        LibraryRun(draft, other=model, nextn=method == "eagle3", causal=method == "eagle3") as run,
    ):
        tokens = list(range(2, 12))
        model.decode(tokens)
        features = model.taps(len(tokens))
        if method == "eagle3":
            logits = run.decode(tokens[1:], run.encode(features)[:-1])
        else:
            run.inject(features)
            logits = run.decode([5, *[shapes.MASK] * 4], first=len(tokens))
        assert np.isfinite(logits).all()
        assert logits.std() > 0


def test_half_precision_matrices_stay_as_they_are_and_vectors_become_f32(
    tmp_path: Path,
) -> None:
    single = random_weights("medusa")
    half = {name: value.astype(np.float16) for name, value in single.items()}
    brain: Weights = {
        name: (value.view(np.uint32) >> 16).astype(np.uint16) for name, value in single.items()
    }
    for kind, weights in (("F16", half), ("BF16", brain)):
        folder = write_checkpoint(tmp_path / kind, "medusa", weights)
        model = open_model(convert_draft(folder, tmp_path / f"{kind}.gguf").path)
        assert model.by_name["medusa.1.output.weight"].type.name == kind
        assert np.array_equal(values(model, "medusa.1.0.weight"), weights["medusa.1.0.weight"])
        bias = values(model, "medusa.1.0.bias")
        assert bias.dtype == np.float32
        assert np.abs(bias - single["medusa.1.0.bias"]).max() < 0.01
        assert np.abs(bias).max() > 0.1


def test_a_smaller_vocabulary_becomes_the_targets_ids(tmp_path: Path, target: Path) -> None:
    weights = random_weights("eagle3")
    weights["output.weight"] = weights["output.weight"][:3]
    weights["d2t"] = np.array([4, 4, 10])
    folder = write_checkpoint(tmp_path / "in", "eagle3", weights, draft_vocab_size=3)
    draft = convert_draft(folder, tmp_path / "out.gguf", target).path
    assert values(open_model(draft), "d2t").tolist() == [4, 5, 12]
    with LibraryRun(target, taps=shapes.TAPS) as model, LibraryRun(draft, nextn=True) as run:
        model.decode([3, 4, 5])
        logits = run.decode([4, 5], run.encode(model.taps(3))[:-1])
        assert np.isfinite(logits[0]).nonzero()[0].tolist() == [4, 5, 12]


@pytest.mark.parametrize("offsets", [[40, 0, 0], [-1, 0, 0], [1, 0, 0], [1 << 62, 0, 0]])
def test_drafted_tokens_that_the_target_lacks_are_refused(
    tmp_path: Path, target: Path, offsets: list[int]
) -> None:
    weights = random_weights("eagle3")
    weights["output.weight"] = weights["output.weight"][:3]
    weights["d2t"] = np.array(offsets)
    folder = write_checkpoint(tmp_path / "in", "eagle3", weights, draft_vocab_size=3)
    with pytest.raises(errors.BadTokens):
        convert_draft(folder, tmp_path / "out.gguf", target)
    assert not (tmp_path / "out.gguf").exists()


@pytest.mark.parametrize("method", SHAPES)
def test_a_drafter_of_another_model_is_refused(tmp_path: Path, method: str) -> None:
    folder = write_checkpoint(tmp_path / "in", method, random_weights(method))
    wider = write_tiny(tmp_path / "wider.gguf", "qwen3", width=128, vocab=V)
    more = write_tiny(tmp_path / "more.gguf", "qwen3", width=W, vocab=V + 1)
    for other in (wider, more):
        with pytest.raises(errors.WrongTarget):
            convert_draft(folder, tmp_path / "out.gguf", other)


@pytest.mark.parametrize("method", ["eagle3", "dflash"])
def test_what_the_library_loads_needs_its_target(tmp_path: Path, method: str) -> None:
    folder = write_checkpoint(tmp_path / "in", method, random_weights(method))
    with pytest.raises(errors.NeedsTarget):
        convert_draft(folder, tmp_path / "out.gguf")


@pytest.mark.parametrize("method", SHAPES)
def test_a_missing_a_strange_and_a_misshapen_tensor_are_refused(
    tmp_path: Path, target: Path, method: str
) -> None:
    whole = random_weights(method)
    needed = next(name for name in reversed(whole) if name.endswith("weight"))
    strange = {"fc.bias" if method in ("eagle3", "dflash") else needed: np.zeros(3, np.float32)}
    for number, (weights, error) in enumerate(
        (
            ({name: one for name, one in whole.items() if name != needed}, errors.MissingTensor),
            ({**whole, needed: whole[needed][:-1]}, errors.WrongShape),
            (
                {**whole, **strange},
                errors.UnexpectedTensor if method in ("eagle3", "dflash") else errors.WrongShape,
            ),
            ({**whole, needed: whole[needed] * np.float32(np.nan)}, errors.NotFinite),
            ({**whole, needed: whole[needed] > 0}, errors.WrongType),
        )
    ):
        folder = write_checkpoint(tmp_path / str(number), method, weights)
        if error is errors.MissingTensor and method == "medusa":
            error = (errors.MissingTensor, errors.BadConfig)
        with pytest.raises(error):
            convert_draft(folder, tmp_path / "out.gguf", target)
        assert not list(tmp_path.glob("*.gguf*"))


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ({"rope_scaling": {"type": "yarn"}}, errors.Unsupported),
        ({"attention_bias": True}, errors.Unsupported),
        ({"hidden_act": "gelu"}, errors.BadConfig),
        ({"num_attention_heads": 0}, errors.BadConfig),
        ({"num_attention_heads": True}, errors.BadConfig),
        ({"num_attention_heads": 3}, errors.WrongShape),
        ({"hidden_size": "64"}, errors.BadConfig),
        ({"hidden_size": 1 << 40}, errors.BadConfig),
        ({"rope_theta": 1e400}, errors.BadConfig),
        ({"rms_norm_eps": -1}, errors.BadConfig),
        ({"num_hidden_layers": 2}, errors.BadConfig),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(
    tmp_path: Path, config: dict[str, Any], error: type[errors.DraftError]
) -> None:
    folder = write_checkpoint(tmp_path / "in", "eagle1", random_weights("eagle1"), **config)
    with pytest.raises(error):
        convert_draft(folder, tmp_path / "out.gguf")


def test_an_existing_output_is_kept_unless_it_may_be_replaced(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "in", "medusa", random_weights("medusa"))
    out = tmp_path / "out.gguf"
    out.write_bytes(b"mine")
    with pytest.raises(OutputExists):
        convert_draft(folder, out)
    assert out.read_bytes() == b"mine"
    convert_draft(folder, out, overwrite=True)
    assert open_model(out).metadata["medusa.head_count"] == shapes.MEDUSA_HEADS


def test_other_checkpoints_are_no_drafters(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    with pytest.raises(errors.NoCheckpoint):
        convert_draft(folder, tmp_path / "out.gguf")
    write_safetensors(folder / "x.safetensors", {"lm_head.weight": np.zeros((2, 2), np.float32)})
    with pytest.raises(errors.UnknownLayout):
        convert_draft(folder, tmp_path / "out.gguf")


def test_a_checkpoint_in_several_files_is_one(tmp_path: Path) -> None:
    weights = random_weights("medusa")
    folder = write_checkpoint(tmp_path / "in", "medusa", weights)
    names = {published_name("medusa", name): one for name, one in weights.items()}
    (folder / "model.safetensors").unlink()
    write_safetensors(folder / "a.safetensors", dict(list(names.items())[:5]))
    write_safetensors(folder / "b.safetensors", dict(list(names.items())[5:]))
    done = convert_draft(folder, tmp_path / "out.gguf")
    assert done.tensors == len(weights)
    write_safetensors(folder / "c.safetensors", dict(list(names.items())[:1]))
    with pytest.raises(errors.BadSafetensors):
        convert_draft(folder, tmp_path / "again.gguf")


def test_config_json_has_to_be_an_object(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "in", "medusa", random_weights("medusa"))
    for text in ("[]", "{", json.dumps({"a": 1})[:-1], "[" * 100_000):
        (folder / "config.json").write_text(text)
        with pytest.raises(errors.Unreadable):
            convert_draft(folder, tmp_path / "out.gguf")
