"""What may draft is opened only if the library can run it beside its target without harm."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from engine.drafts.errors import BadTokens, NotRun, PairingRefused
from engine.drafts.trust import trusted_drafter
from engine.errors import TwofoldError
from engine.gguf.errors import BadKey, MissingTensor, UnexpectedTensor, UnusableType, WrongShape
from engine.gguf.splits import GgufModel, open_model
from engine.gguf.types import GgmlType, ValueType
from tests.support.drafts import shapes
from tests.support.gguf_bytes import GgufBytes, Tensor, Value, array, f32, text, u32
from tests.support.tiny_models import tiny_model, write_tiny

W, Q, KV = shapes.WIDTH, shapes.HEADS * shapes.HEAD, shapes.KV_HEADS * shapes.HEAD
SHAPES: dict[str, tuple[int, ...]] = {
    "fc.weight": (3 * W, W),
    "token_embd.weight": (W, shapes.VOCAB),
    "output.weight": (W, 8),
    "output_norm.weight": (W,),
    "d2t": (8,),
    "blk.0.attn_norm.weight": (W,),
    "blk.0.attn_norm_2.weight": (W,),
    "blk.0.attn_q.weight": (2 * W, Q),
    "blk.0.attn_k.weight": (2 * W, KV),
    "blk.0.attn_v.weight": (2 * W, KV),
    "blk.0.attn_output.weight": (Q, W),
    "blk.0.ffn_norm.weight": (W,),
    "blk.0.ffn_gate.weight": (W, shapes.FFN),
    "blk.0.ffn_up.weight": (W, shapes.FFN),
    "blk.0.ffn_down.weight": (shapes.FFN, W),
}


class Parts(NamedTuple):
    keys: dict[str, Value]
    values: dict[str, Any]  # tensors


Change = Callable[[Parts], object]


def target(path: Path, arch: str = "qwen3", **shape: Any) -> GgufModel:
    return open_model(write_tiny(path, arch, **{"width": W, "vocab": shapes.VOCAB, **shape}))


def head(path: Path, change: Change | None = None) -> Path:
    """A sound EAGLE-3 file for the target above, but for `change`."""
    tokens = {
        str(key): one
        for key, one in tiny_model("qwen3", width=W, vocab=shapes.VOCAB).metadata
        if str(key).startswith("tokenizer.")
    }
    keys: dict[str, Value] = {
        "general.architecture": text("eagle3"),
        "eagle3.embedding_length": u32(W),
        "eagle3.target_hidden_size": u32(W),
        "eagle3.block_count": u32(1),
        "eagle3.context_length": u32(4096),
        "eagle3.feed_forward_length": u32(shapes.FFN),
        "eagle3.attention.head_count": u32(shapes.HEADS),
        "eagle3.attention.head_count_kv": u32(shapes.KV_HEADS),
        "eagle3.attention.key_length": u32(shapes.HEAD),
        "eagle3.attention.value_length": u32(shapes.HEAD),
        "eagle3.attention.layer_norm_rms_epsilon": f32(1e-6),
        "eagle3.rope.dimension_count": u32(shapes.HEAD),
        "eagle3.target_layers": array(ValueType.INT32, [1, 2, 3]),
        **tokens,
    }
    values: dict[str, Any] = {
        name: np.zeros(shape[::-1], np.float32) for name, shape in SHAPES.items()
    }
    values["d2t"] = np.arange(8, dtype=np.int64) * 3
    if change is not None:
        change(Parts(keys, values))
    kinds = {"float32": GgmlType.F32, "int64": GgmlType.I64, "float16": GgmlType.F16}
    tensors = [
        Tensor(name, value.shape[::-1], kinds[str(value.dtype)], value.tobytes())
        for name, value in values.items()
    ]
    path.write_bytes(GgufBytes(list(keys.items()), tensors).encode())
    return path


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
