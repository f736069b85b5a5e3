"""Writes drafters as their publishers do: safetensors with a config.json beside it."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.drafts import shapes

Weights = Mapping[str, NDArray[Any]]

_TRANSFORMER = {
    "hidden_size": shapes.WIDTH,
    "intermediate_size": shapes.FFN,
    "num_attention_heads": shapes.HEADS,
    "num_key_value_heads": shapes.KV_HEADS,
    "head_dim": shapes.HEAD,
    "hidden_act": "silu",
    "max_position_embeddings": 4096,
    "rms_norm_eps": shapes.EPS,
    "rope_theta": shapes.ROPE_BASE,
    "vocab_size": shapes.VOCAB,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "medusa": {"medusa_num_heads": shapes.MEDUSA_HEADS, "medusa_num_layers": 1},
    "eagle1": {**_TRANSFORMER, "num_hidden_layers": 1},
    "eagle3": {
        **_TRANSFORMER,
        "num_hidden_layers": 1,
        "draft_vocab_size": shapes.VOCAB,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": list(shapes.TAPS)},
    },
    "dflash": {
        **_TRANSFORMER,
        "num_hidden_layers": shapes.DFLASH_BLOCKS,
        "block_size": shapes.DRAFTED + 1,
        "dflash_config": {
            "mask_token_id": shapes.MASK,
            "target_layer_ids": [tap - 1 for tap in shapes.TAPS],
        },
    },
}
_PARTS = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_norm": "input_layernorm",
    "attn_norm_2": "hidden_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_WHOLE = {
    "enc.output_norm.weight": "hidden_norm.weight",
    "output_norm.weight": "norm.weight",
    "output.weight": "lm_head.weight",
    "token_embd.weight": "embed_tokens.weight",
}


def write_checkpoint(folder: Path, method: str, weights: Weights, **config: Any) -> Path:
    """`weights` by their GGUF names, as the library holds them. Returns `folder`."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**CONFIGS[method], **config}))
    named: dict[str, NDArray[Any]] = {}
    for name, values in weights.items():
        if method == "eagle3" and name in ("blk.0.attn_q.weight", "blk.0.attn_k.weight"):
            values = _halves(values)
        named[published_name(method, name)] = values
    write_safetensors(folder / "model.safetensors", named)
    return folder


def published_name(method: str, name: str) -> str:
    parts = name.split(".")
    if method == "medusa":
        _, head, layer, kind = parts
        return f"{head}.1.weight" if layer == "output" else f"{head}.{layer}.linear.{kind}"
    if parts[0] != "blk":
        return _WHOLE.get(name, name)
    block = "midlayer" if method == "eagle3" else f"layers.{parts[1]}"
    return f"{block}.{_PARTS[parts[2]]}.{parts[3]}"


def write_safetensors(path: Path, tensors: Weights) -> Path:
    kinds = {"float32": "F32", "float16": "F16", "uint16": "BF16", "int64": "I64", "bool": "BOOL"}
    table: dict[str, Any] = {}
    data = b""
    for name, values in tensors.items():
        raw = np.ascontiguousarray(values).tobytes()
        table[name] = {
            "dtype": kinds[str(values.dtype)],
            "shape": list(values.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    header = json.dumps({"__metadata__": {"format": "pt"}, **table}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)
    return path


def _halves(weight: NDArray[Any]) -> NDArray[Any]:
    """Rows of each head with its even ones first: what publishers turn by halves, the library
    turns by pairs."""
    rows, columns = weight.shape
    heads = weight.reshape(rows // shapes.HEAD, shapes.HEAD // 2, 2, columns)
    return heads.swapaxes(1, 2).reshape(rows, columns)
