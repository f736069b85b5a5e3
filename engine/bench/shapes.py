"""The published shapes of models that made-up ones are written like.

Sources: the models' own config.json files (Qwen3, Qwen3.5) and, for names and order of tensors,
llama.cpp's models/qwen3.cpp and models/qwen35.cpp.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from engine.bench.errors import UnknownShape
from engine.prefiller.output import MetadataValue


class Role(Enum):
    """What a tensor does in the model, which decides its type and the size of its values."""

    EMBEDDING = "embedding"
    HEAD = "head"
    LINEAR = "linear"
    GATE = "gate"  # per-head gates of the recurrence: products too, but kept in more bits
    NORM = "norm"
    DECAY = "decay"  # how fast the recurrence forgets: negative
    SMALL = "small"


@dataclass(frozen=True, slots=True)
class DeltaNet:
    """The recurrent blocks of a hybrid model; every `interval`-th block is attention instead."""

    interval: int = 4
    kernel: int = 4
    state: int = 128
    key_heads: int = 16
    value_heads: int = 48

    @property
    def inner(self) -> int:
        return self.state * self.value_heads

    @property
    def mixed(self) -> int:
        """Queries, keys and values side by side."""
        return 2 * self.state * self.key_heads + self.inner


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Widths in values. `tied`: the output head is the embedding. `rope` is the part of a head
    that turns with the position; `rope_sections` splits it for text, height and width."""

    arch: str
    blocks: int
    width: int
    ffn: int
    heads: int
    kv_heads: int
    head: int
    vocab: int
    context: int
    rope_base: float
    rope: int
    tied: bool
    delta_net: DeltaNet | None = None
    rope_sections: tuple[int, int, int, int] | None = None


def _qwen3(blocks: int, width: int, ffn: int, heads: int, *, tied: bool = True) -> ModelShape:
    return ModelShape(
        arch="qwen3",
        blocks=blocks,
        width=width,
        ffn=ffn,
        heads=heads,
        kv_heads=8,
        head=128,
        vocab=151_936,
        context=40_960,
        rope_base=1e6,
        rope=128,
        tied=tied,
    )


SHAPES: dict[tuple[str, str], ModelShape] = {
    ("qwen3", "0.6b"): _qwen3(28, 1024, 3072, 16),
    ("qwen3", "1.7b"): _qwen3(28, 2048, 6144, 16),
    ("qwen3", "4b"): _qwen3(36, 2560, 9728, 32),
    ("qwen3", "8b"): _qwen3(36, 4096, 12_288, 32, tied=False),
    ("qwen35", "27b"): ModelShape(
        arch="qwen35",
        blocks=64,
        width=5120,
        ffn=17_408,
        heads=24,
        kv_heads=4,
        head=256,
        vocab=248_320,
        context=262_144,
        rope_base=1e7,
        rope=64,
        tied=False,
        delta_net=DeltaNet(),
        rope_sections=(11, 11, 10, 0),
    ),
}


def model_shape(arch: str, size: str) -> ModelShape:
    """Raises UnknownShape."""
    shape = SHAPES.get((arch, size.lower()))
    if shape is None:
        known = ", ".join(f"{arch} {size}" for arch, size in SHAPES)
        raise UnknownShape(arch=arch, size=size, known=known)
    return shape


def hyperparameters(shape: ModelShape) -> dict[str, MetadataValue]:
    """The GGUF keys that the library reads for this architecture."""
    values: dict[str, MetadataValue] = {
        "context_length": shape.context,
        "embedding_length": shape.width,
        "block_count": shape.blocks,
        "feed_forward_length": shape.ffn,
        "vocab_size": shape.vocab,
        "attention.head_count": shape.heads,
        "attention.head_count_kv": shape.kv_heads,
        "attention.key_length": shape.head,
        "attention.value_length": shape.head,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "rope.dimension_count": shape.rope,
        "rope.freq_base": shape.rope_base,
    }
    if shape.rope_sections is not None:
        values["rope.dimension_sections"] = shape.rope_sections
    if shape.delta_net is not None:
        values |= {
            "full_attention_interval": shape.delta_net.interval,
            "ssm.conv_kernel": shape.delta_net.kernel,
            "ssm.state_size": shape.delta_net.state,
            "ssm.inner_size": shape.delta_net.inner,
            "ssm.time_step_rank": shape.delta_net.value_heads,
            "ssm.group_count": shape.delta_net.key_heads,
        }
    return {f"{shape.arch}.{key}": value for key, value in values.items()}


def tensors(shape: ModelShape) -> Iterator[tuple[str, tuple[int, ...], Role]]:
    """Name, shape (fastest dimension first) and role of every tensor, in the file's order."""
    yield (
        "token_embd.weight",
        (shape.width, shape.vocab),
        Role.HEAD if shape.tied else (Role.EMBEDDING),
    )
    yield "output_norm.weight", (shape.width,), Role.NORM
    if not shape.tied:
        yield "output.weight", (shape.width, shape.vocab), Role.HEAD
    for block in range(shape.blocks):
        for name, size, role in _block(shape, block):
            yield f"blk.{block}.{name}", size, role


def _block(shape: ModelShape, block: int) -> Iterator[tuple[str, tuple[int, ...], Role]]:
    net = shape.delta_net
    yield "attn_norm.weight", (shape.width,), Role.NORM
    if net is None or (block + 1) % net.interval == 0:
        yield from _attention(shape)
    else:
        yield from _delta_net(shape.width, net)
    after = "ffn_norm.weight" if net is None else "post_attention_norm.weight"
    yield after, (shape.width,), Role.NORM
    yield "ffn_gate.weight", (shape.width, shape.ffn), Role.LINEAR
    yield "ffn_up.weight", (shape.width, shape.ffn), Role.LINEAR
    yield "ffn_down.weight", (shape.ffn, shape.width), Role.LINEAR


def _attention(shape: ModelShape) -> Iterator[tuple[str, tuple[int, ...], Role]]:
    q, kv = shape.heads * shape.head, shape.kv_heads * shape.head
    # Hybrid models keep each head's output gate next to its query.
    yield "attn_q.weight", (shape.width, 2 * q if shape.delta_net else q), Role.LINEAR
    yield "attn_k.weight", (shape.width, kv), Role.LINEAR
    yield "attn_v.weight", (shape.width, kv), Role.LINEAR
    yield "attn_output.weight", (q, shape.width), Role.LINEAR
    yield "attn_q_norm.weight", (shape.head,), Role.NORM
    yield "attn_k_norm.weight", (shape.head,), Role.NORM


def _delta_net(width: int, net: DeltaNet) -> Iterator[tuple[str, tuple[int, ...], Role]]:
    yield "attn_qkv.weight", (width, net.mixed), Role.LINEAR
    yield "attn_gate.weight", (width, net.inner), Role.LINEAR
    yield "ssm_conv1d.weight", (net.kernel, net.mixed), Role.SMALL
    yield "ssm_dt.bias", (net.value_heads,), Role.SMALL
    yield "ssm_a", (net.value_heads,), Role.DECAY
    yield "ssm_beta.weight", (width, net.value_heads), Role.GATE
    yield "ssm_alpha.weight", (width, net.value_heads), Role.GATE
    yield "ssm_norm.weight", (net.state,), Role.NORM
    yield "ssm_out.weight", (net.inner, width), Role.LINEAR
