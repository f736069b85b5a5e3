"""What may draft is opened only if the library can run it beside its target without harm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.drafts.errors import BadTokens, NotRun, PairingRefused
from engine.drafts.trust import trusted_drafter
from engine.errors import TwofoldError
from engine.gguf.errors import BadKey, MissingTensor, UnexpectedTensor, UnusableType, WrongShape
from engine.gguf.splits import GgufModel, open_model
from engine.gguf.types import ValueType
from tests.support.drafts import shapes
from tests.support.drafts.heads import Change, head
from tests.support.gguf_bytes import GgufBytes, Value, array, text, u32
from tests.support.tiny_models import write_tiny

W, KV = shapes.WIDTH, shapes.KV_HEADS * shapes.HEAD


def target(path: Path, arch: str = "qwen3", **shape: Any) -> GgufModel:
    return open_model(write_tiny(path, arch, **{"width": W, "vocab": shapes.VOCAB, **shape}))


def test_a_sound_head_and_a_sound_model_are_trusted(tmp_path: Path) -> None:
    model = target(tmp_path / "t.gguf")
    assert trusted_drafter(head(tmp_path / "h.gguf"), model).path == tmp_path / "h.gguf"
    small = write_tiny(tmp_path / "s.gguf", "llama", vocab=shapes.VOCAB)
    assert trusted_drafter(small, model).path == small


def test_embeddings_may_be_the_targets(tmp_path: Path) -> None:
    borrowing = head(tmp_path / "h.gguf", without("token_embd.weight"))
    trusted_drafter(borrowing, target(tmp_path / "t.gguf"))


def change_key(key: str, value: Value) -> Change:
    return lambda parts: parts.keys.update({key: value})


def change_tensor(name: str, value: Any) -> Change:
    return lambda parts: parts.values.update({name: value})


def without(name: str) -> Change:
    return lambda parts: parts.values.pop(name)


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (without("fc.weight"), MissingTensor),
        (without("blk.0.attn_norm_2.weight"), MissingTensor),
        (without("output.weight"), MissingTensor),  # whose rows d2t names
        (change_tensor("blk.1.attn_q.weight", np.zeros((4, 4), np.float32)), UnexpectedTensor),
        (change_tensor("fc.weight", np.zeros((W, 2 * W), np.float32)), WrongShape),
        (change_tensor("blk.0.attn_k.weight", np.zeros((KV, W), np.float32)), WrongShape),
        (change_tensor("output.weight", np.zeros((9, W), np.float32)), WrongShape),
        (change_tensor("output_norm.weight", np.zeros(W, np.float16)), UnusableType),
        (change_tensor("d2t", np.zeros(8, np.float32)), UnusableType),
        (change_tensor("d2t", np.arange(8, dtype=np.int64) - 1), BadTokens),
        (change_tensor("d2t", np.arange(8, dtype=np.int64) + shapes.VOCAB - 7), BadTokens),
        (change_tensor("d2t", np.zeros(8, np.int64)), BadTokens),
        (change_key("eagle3.block_count", u32(2)), BadKey),
        (change_key("eagle3.attention.head_count", u32(0)), BadKey),
        (change_key("eagle3.attention.head_count_kv", u32(3)), BadKey),
        (change_key("eagle3.rope.dimension_count", u32(1)), BadKey),
        (change_key("eagle3.target_hidden_size", u32(2 * W)), PairingRefused),
        (change_key("eagle3.target_layers", array(ValueType.INT32, [1, 2, 9])), PairingRefused),
        (change_key("general.architecture", text("dflash")), TwofoldError),
    ],
)
def test_a_head_that_the_library_could_stumble_over_is_refused(
    tmp_path: Path, change: Change, kind: type[TwofoldError]
) -> None:
    model = target(tmp_path / "t.gguf")
    with pytest.raises(kind):
        trusted_drafter(head(tmp_path / "h.gguf", change), model)


def test_a_target_without_taps_is_refused(tmp_path: Path) -> None:
    for arch in ("qwen2", "gemma3"):
        with pytest.raises(PairingRefused):
            trusted_drafter(head(tmp_path / "h.gguf"), target(tmp_path / f"{arch}.gguf", arch))


def test_other_heads_are_named_as_not_run(tmp_path: Path) -> None:
    medusa = tmp_path / "m.gguf"
    keys = {
        "general.architecture": text("medusa"),
        "medusa.embedding_length": u32(W),
        "medusa.vocab_size": u32(shapes.VOCAB),
    }
    medusa.write_bytes(GgufBytes(list(keys.items()), []).encode())
    with pytest.raises(NotRun) as caught:
        trusted_drafter(medusa, target(tmp_path / "t.gguf"))
    assert caught.value.data["method"] == "Medusa"
