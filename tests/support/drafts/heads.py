"""Writes EAGLE-3 files without trained weights: sound ones, and ones that are changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from engine.gguf.types import GgmlType, ValueType
from tests.support.drafts import shapes
from tests.support.gguf_bytes import GgufBytes, Tensor, Value, array, f32, text, u32
from tests.support.tiny_models import tiny_model

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


def head(path: Path, change: Change | None = None) -> Path:
    """Sound but for `change`, for a tiny qwen3 of the shapes' width and vocabulary."""
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
