"""Writes the trained networks as GGUF files: targets, and drafters in the library's layouts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from engine.gguf.types import GgmlType, ValueType
from tests.support.drafts import shapes
from tests.support.gguf_bytes import GgufBytes, Tensor, Value, array, f32, flag, text, u32

Weights = Mapping[str, NDArray[Any]]


def write_qwen3(path: Path, weights: Weights) -> None:
    _write(path, "qwen3", shapes.QWEN3_BLOCKS, {}, weights)


def write_qwen35(path: Path, weights: Weights) -> None:
    """The trunk, and behind it one NextN block."""
    extra = {
        "nextn_predict_layers": u32(1),
        "full_attention_interval": u32(shapes.INTERVAL),
        "rope.dimension_sections": array(ValueType.INT32, [6, 5, 5, 0]),
        "ssm.conv_kernel": u32(shapes.CONV),
        "ssm.state_size": u32(shapes.STATE),
        "ssm.inner_size": u32(shapes.HEADS * shapes.STATE),
        "ssm.time_step_rank": u32(shapes.HEADS),
        "ssm.group_count": u32(shapes.HEADS),
    }
    _write(path, "qwen35", shapes.QWEN35_BLOCKS + 1, extra, weights)


def write_eagle3(path: Path, weights: Weights, target: Weights) -> None:
    """With the target's embeddings and head in it, as checkpoints carry them."""
    extra = {
        "target_layers": array(ValueType.INT32, list(shapes.TAPS)),
        "target_hidden_size": u32(shapes.WIDTH),
    }
    own = {name: target[name] for name in ("token_embd.weight", "output.weight")}
    _write(path, "eagle3", 1, extra, {**weights, **own})


def write_dflash(path: Path, weights: Weights) -> None:
    """DFlash, or DSpark where the weights have its heads; embeddings and head are the target's."""
    spark = "markov_w1.weight" in weights
    extra = {
        "target_layers": array(ValueType.INT32, list(shapes.TAPS)),
        "block_size": u32(shapes.DRAFTED if spark else shapes.DRAFTED + 1),
    }
    if spark:
        extra |= {"sample_from_anchor": flag(True), "has_confidence_head": flag(True)}
    _write(path, "dflash", shapes.DFLASH_BLOCKS, extra, weights)


def _write(path: Path, arch: str, blocks: int, extra: dict[str, Value], weights: Weights) -> None:
    hparams = {
        "context_length": u32(4096),
        "embedding_length": u32(shapes.WIDTH),
        "block_count": u32(blocks),
        "feed_forward_length": u32(shapes.FFN),
        "vocab_size": u32(shapes.VOCAB),
        "attention.head_count": u32(shapes.HEADS),
        "attention.head_count_kv": u32(shapes.KV_HEADS),
        "attention.key_length": u32(shapes.HEAD),
        "attention.value_length": u32(shapes.HEAD),
        "attention.layer_norm_rms_epsilon": f32(shapes.EPS),
        "rope.dimension_count": u32(shapes.HEAD),
        "rope.freq_base": f32(shapes.ROPE_BASE),
        **extra,
    }
    metadata = {
        "general.architecture": text(arch),
        "general.name": text(f"trained {arch}"),
        **{f"{arch}.{key}": value for key, value in hparams.items()},
        "tokenizer.ggml.model": text("test"),
        "tokenizer.ggml.tokens": array(
            ValueType.STRING, [f"t{token}" for token in range(shapes.VOCAB)]
        ),
        "tokenizer.ggml.mask_token_id": u32(shapes.MASK),
    }
    tensors = [
        Tensor(name, value.shape[::-1], GgmlType.F32, value.tobytes())
        for name, value in weights.items()
    ]
    path.write_bytes(GgufBytes(list(metadata.items()), tensors).encode())
