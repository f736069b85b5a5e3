"""A drafter is attached to the model it was made for, and refused for one that it does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.drafts.convert import convert_draft
from engine.drafts.errors import NotADraft, PairingRefused
from engine.drafts.layouts import Method
from engine.drafts.pairing import (
    check_draft,
    open_draft,
    require_draft,
    require_model_drafter,
)
from engine.gguf.errors import BadKey
from engine.gguf.splits import GgufModel, open_model
from engine.gguf.types import ValueType
from engine.prefiller.pairing import Verdict
from tests.support.drafts import shapes
from tests.support.drafts.checkpoints import write_checkpoint
from tests.support.gguf_bytes import GgufBytes, Value, array, text, u32
from tests.support.tiny_models import tiny_model, write_tiny


def target(path: Path, arch: str = "qwen3", **shape: Any) -> GgufModel:
    shape = {"width": shapes.WIDTH, "vocab": shapes.VOCAB, **shape}
    return open_model(write_tiny(path, arch, **shape))


def draft_of(
    path: Path, taps: list[int] | None = None, changes: dict[str, Value] | None = None
) -> Path:
    """Metadata of an EAGLE-3 file for the target above; it holds no weights."""
    model = tiny_model("qwen3", width=shapes.WIDTH, vocab=shapes.VOCAB)
    tokens = {str(key): one for key, one in model.metadata if str(key).startswith("tokenizer.")}
    keys: dict[str, Value] = {
        "general.architecture": text("eagle3"),
        "eagle3.embedding_length": u32(shapes.WIDTH),
        "eagle3.target_hidden_size": u32(shapes.WIDTH),
        "eagle3.block_count": u32(1),
        "eagle3.context_length": u32(128),
        "eagle3.attention.head_count_kv": u32(2),
        "eagle3.attention.key_length": u32(32),
        "eagle3.target_layers": array(ValueType.INT32, [0, 1, 2] if taps is None else taps),
        **tokens,
        **(changes or {}),
    }
    path.write_bytes(GgufBytes(list(keys.items()), []).encode())
    return path


def reasons(path: Path, model: GgufModel) -> list[str]:
    with pytest.raises(PairingRefused):
        require_draft(open_draft(path), model)
    return [remark.code for remark in check_draft(open_draft(path), model).remarks]


def test_a_whole_model_drafts_for_those_of_its_own_tokens(tmp_path: Path) -> None:
    model = target(tmp_path / "t.gguf")
    same = target(tmp_path / "same.gguf", "llama", width=128)
    require_model_drafter(same, model)
    head = open_model(draft_of(tmp_path / "head.gguf"))
    fewer = target(tmp_path / "fewer.gguf", vocab=shapes.VOCAB - 1)
    for draft, reason in ((head, "no model of its own"), (fewer, f"the model has {shapes.VOCAB}")):
        with pytest.raises(PairingRefused) as caught:
            require_model_drafter(draft, model)
        assert reason in str(caught.value.data["reasons"])


def test_a_converted_drafter_is_matched_by_its_targets_hash(tmp_path: Path) -> None:
    model = target(tmp_path / "t.gguf")
    width, vocab = shapes.WIDTH, shapes.VOCAB
    weights = {
        f"medusa.{head}.{name}": np.ones(shape, np.float32)
        for head in range(shapes.MEDUSA_HEADS)
        for name, shape in {
            "0.weight": (width, width),
            "0.bias": (width,),
            "output.weight": (vocab, width),
        }.items()
    }
    folder = write_checkpoint(tmp_path / "in", "medusa", weights)
    draft = open_draft(convert_draft(folder, tmp_path / "m.gguf", model.path).path)
    assert draft.method is Method.MEDUSA
    assert check_draft(draft, model).verdict is Verdict.MATCHED_BY_HASH
    requantised = target(tmp_path / "q4.gguf", weight_type="Q4_0")
    assert check_draft(draft, requantised).verdict is Verdict.UNKNOWN
    assert require_draft(draft, requantised).fits
    assert draft.nbytes == sum(value.nbytes for value in weights.values())
    assert draft.cache_bytes(1000) == 0


def test_one_that_says_nothing_of_its_target_fits_and_is_unknown(tmp_path: Path) -> None:
    draft = open_draft(draft_of(tmp_path / "d.gguf"))
    pairing = require_draft(draft, target(tmp_path / "t.gguf"))
    assert (pairing.verdict, pairing.fits) == (Verdict.UNKNOWN, True)
    assert draft.cache_bytes(1000) == 2 * 2 * 32 * 1000 * 2


def test_what_does_not_fit_is_refused_with_the_reason(tmp_path: Path) -> None:
    draft = draft_of(tmp_path / "d.gguf")
    assert reasons(draft, target(tmp_path / "w.gguf", width=128)) == ["width"]
    assert reasons(draft, target(tmp_path / "v.gguf", vocab=33)) == ["vocabulary"]
    deep = draft_of(tmp_path / "deep.gguf", taps=[0, 1, 4])
    assert reasons(deep, target(tmp_path / "t.gguf")) == ["taps"]
    others = array(ValueType.STRING, [f"x{n}" for n in range(shapes.VOCAB)])
    strange = draft_of(tmp_path / "s.gguf", changes={"tokenizer.ggml.tokens": others})
    assert reasons(strange, target(tmp_path / "t.gguf")) == ["tokens"]


@pytest.mark.parametrize("arch", ["qwen2", "gemma3"])
def test_a_target_without_taps_is_refused(tmp_path: Path, arch: str) -> None:
    draft = draft_of(tmp_path / "d.gguf")
    assert reasons(draft, target(tmp_path / "t.gguf", arch)) == ["no_taps"]


def test_a_model_is_no_drafter(tmp_path: Path) -> None:
    with pytest.raises(NotADraft):
        open_draft(write_tiny(tmp_path / "t.gguf", "llama"))


@pytest.mark.parametrize(
    "changes",
    [
        {"eagle3.target_layers": u32(3)},
        {"eagle3.target_layers": array(ValueType.INT32, [1, 2])},
        {"eagle3.target_layers": array(ValueType.INT32, [1, 2, -1])},
        {"eagle3.target_layers": array(ValueType.STRING, ["1", "2", "3"])},
        {"eagle3.target_hidden_size": u32(0)},
        {"eagle3.embedding_length": text("64")},
    ],
)
def test_a_file_that_lies_is_refused(tmp_path: Path, changes: dict[str, Value]) -> None:
    with pytest.raises(BadKey):
        open_draft(draft_of(tmp_path / "d.gguf", changes=changes))
