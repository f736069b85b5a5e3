"""What the library asserts about the architectures that are checked to the last tensor.

For each of them: the hyperparameters with the ranges in which neither loading nor the
graph builder aborts, and every tensor the library reads, with its shape. Sources:
llama-model.cpp (load_hparams, create_tensor_qkv, load_tensors) and models/<name>.cpp.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from engine.gguf.keys import Keys
from engine.gguf.reader import Value
from engine.gguf.types import GgmlType

MAX_BLOCKS = 512  # LLAMA_MAX_LAYERS
MAX_WIDTH = 1 << 17
MAX_HEADS = 1 << 12
MAX_HEAD_WIDTH = 1 << 10
MAX_FFN = 1 << 21
MAX_CONTEXT = 1 << 27

ROPE_SCALINGS = ("none", "linear", "yarn", "longrope")


class Role(Enum):
    """What a tensor is used for, which decides the types it may have."""

    LINEAR = "linear"  # multiplied with, or looked up in: any float or quantised type
    SMALL = "small"  # added or multiplied element by element: F32
    INDEX = "index"  # numbers of rows: I64


@dataclass(frozen=True, slots=True)
class Expected:
    """A tensor that the library looks for."""

    shape: tuple[int, ...]
    role: Role
    required: bool


LINEAR_TYPES = frozenset(
    type_
    for type_ in GgmlType
    if type_
    not in (
        GgmlType.I8,
        GgmlType.I16,
        GgmlType.I32,
        GgmlType.I64,
        GgmlType.F64,
    )
)
USABLE_TYPES = {
    Role.LINEAR: LINEAR_TYPES,
    Role.SMALL: frozenset({GgmlType.F32}),
    Role.INDEX: frozenset({GgmlType.I64}),
}


@dataclass(frozen=True, slots=True)
class Shape:
    """The hyperparameters that tensors' shapes follow from."""

    blocks: int
    width: int
    ffn: int
    heads: int
    kv_heads: int
    head_width: int
    rope_width: int
    vocab: int

    @property
    def q_width(self) -> int:
        return self.heads * self.head_width

    @property
    def kv_width(self) -> int:
        return self.kv_heads * self.head_width


def read_shape(keys: Keys, vocab: int) -> Shape:
    """The hyperparameters common to all checked architectures."""
    blocks = keys.integer("block_count", 1, MAX_BLOCKS)
    width = keys.integer("embedding_length", 1, MAX_WIDTH)
    keys.integer("context_length", 1, MAX_CONTEXT)
    heads = _same(keys, "attention.head_count", blocks, MAX_HEADS)
    kv_heads = _same(keys, "attention.head_count_kv", blocks, MAX_HEADS, default=heads)
    if heads % kv_heads:
        raise keys.refuse("attention.head_count_kv", f"a divisor of {heads}")
    head_width = keys.integer("attention.key_length", 1, MAX_HEAD_WIDTH, width // heads or None)
    if keys.integer("attention.value_length", 1, MAX_HEAD_WIDTH, width // heads) != head_width:
        raise keys.refuse("attention.value_length", f"{head_width}, the length of keys")
    rope_width = keys.integer("rope.dimension_count", 2, head_width, head_width)
    if rope_width % 2:
        raise keys.refuse("rope.dimension_count", "an even number", rope_width)
    ffn = _same(keys, "feed_forward_length", blocks, MAX_FFN)
    _check_common(keys, width, head_width, rope_width)
    return Shape(blocks, width, ffn, heads, kv_heads, head_width, rope_width, vocab)


def _same(keys: Keys, key: str, blocks: int, high: int, default: int | None = None) -> int:
    values = keys.integers(key, blocks, 1, high)
    if values is None:
        return keys.integer(key, 1, high, default)
    if len(set(values)) > 1:
        raise keys.refuse(key, "the same number for every block")
    return values[0]


def _check_common(keys: Keys, width: int, head_width: int, rope_width: int) -> None:
    keys.number("attention.layer_norm_rms_epsilon", above=0.0)
    keys.number("rope.freq_base", 1.0, above=0.0)
    keys.number("rope.freq_base_swa", 1.0, above=0.0)
    if keys.text("rope.scaling.type", "linear") not in ROPE_SCALINGS:
        raise keys.refuse("rope.scaling.type", " or ".join(ROPE_SCALINGS))
    for key in ("rope.scaling.factor", "rope.scale_linear", "rope.scaling.attn_factor"):
        keys.number(key, 1.0, above=0.0)
    for key in ("rope.scaling.yarn_log_multiplier", "rope.scaling.alpha"):
        keys.number(key, 0.0)
    for key in ("final_logit_softcapping", "attn_logit_softcapping"):
        keys.number(key, 0.0)
    keys.integer("rope.scaling.original_context_length", 1, MAX_CONTEXT, 1)
    keys.integer("attention.sliding_window", 0, MAX_CONTEXT, 0)
    for key, value in (
        ("embedding_length_out", width),
        ("attention.key_length_swa", head_width),
        ("attention.value_length_swa", head_width),
        ("rope.dimension_count_swa", rope_width),
    ):
        keys.absent_or(key, _equals(value), str(value))
    for key in ("expert_count", "expert_used_count", "expert_group_count", "pooling_type"):
        keys.absent_or(key, _equals(0), "0")
    keys.absent_or("attention.causal", _equals(True), "true")
    keys.absent_or("classifier.output_labels", _never, "nothing")


def _equals(wanted: int) -> Callable[[Value], bool]:
    return lambda value: value == wanted


def _never(value: Value) -> bool:
    del value
    return False


def expected_tensors(architecture: str, keys: Keys, vocab: int) -> dict[str, Expected]:
    """Every tensor that the library reads from a model of a checked architecture."""
    shape = read_shape(keys, vocab)
    return _BUILDERS[architecture](keys, shape)


def _linear(*shape: int, required: bool = True) -> Expected:
    return Expected(shape, Role.LINEAR, required)


def _small(*shape: int, required: bool = True) -> Expected:
    return Expected(shape, Role.SMALL, required)


def _with_scales(tensors: dict[str, Expected]) -> dict[str, Expected]:
    """Adds the optional scales (of NVFP4, among others) of each linear weight of a block."""
    out = dict(tensors)
    for name, expected in tensors.items():
        if expected.role is Role.LINEAR and name.startswith("blk."):
            base = name.removesuffix("weight")
            out[f"{base}scale"] = out[f"{base}input_scale"] = _small(1, required=False)
    return out


def _outside_blocks(shape: Shape) -> dict[str, Expected]:
    return {
        "token_embd.weight": _linear(shape.width, shape.vocab),
        "output_norm.weight": _small(shape.width),
        "output.weight": _linear(shape.width, shape.vocab, required=False),
    }


def _attention(shape: Shape, q_width: int) -> dict[str, Expected]:
    return {
        "attn_norm.weight": _small(shape.width),
        "attn_q.weight": _linear(shape.width, q_width),
        "attn_k.weight": _linear(shape.width, shape.kv_width),
        "attn_v.weight": _linear(shape.width, shape.kv_width),
        "attn_q.bias": _small(q_width, required=False),
        "attn_k.bias": _small(shape.kv_width, required=False),
        "attn_v.bias": _small(shape.kv_width, required=False),
        "attn_output.weight": _linear(shape.q_width, shape.width),
    }


def _head_norms(shape: Shape) -> dict[str, Expected]:
    return {
        "attn_q_norm.weight": _small(shape.head_width),
        "attn_k_norm.weight": _small(shape.head_width),
    }


def _ffn(shape: Shape) -> dict[str, Expected]:
    return {
        "ffn_gate.weight": _linear(shape.width, shape.ffn),
        "ffn_up.weight": _linear(shape.width, shape.ffn),
        "ffn_down.weight": _linear(shape.ffn, shape.width),
    }


def _in_blocks(blocks: range, tensors: dict[str, Expected]) -> dict[str, Expected]:
    return {
        f"blk.{block}.{name}": expected for block in blocks for name, expected in tensors.items()
    }


def _no_nextn(keys: Keys) -> None:
    keys.absent_or("nextn_predict_layers", _equals(0), "0")


def _whole_head_rope(keys: Keys, shape: Shape) -> None:
    if shape.rope_width != shape.head_width:
        raise keys.refuse("rope.dimension_count", str(shape.head_width), shape.rope_width)


def _llama(keys: Keys, shape: Shape) -> dict[str, Expected]:
    _no_nextn(keys)
    _whole_head_rope(keys, shape)
    block = {
        **_attention(shape, shape.q_width),
        "attn_output.bias": _small(shape.width, required=False),
        "ffn_norm.weight": _small(shape.width),
        **_ffn(shape),
        "ffn_gate.bias": _small(shape.ffn, required=False),
        "ffn_up.bias": _small(shape.ffn, required=False),
        "ffn_down.bias": _small(shape.width, required=False),
    }
    rope = {
        f"rope_{kind}.weight": _small(shape.rope_width // 2, required=False)
        for kind in ("freqs", "factors_long", "factors_short")
    }
    return _outside_blocks(shape) | rope | _in_blocks(range(shape.blocks), block)


def _qwen2(keys: Keys, shape: Shape) -> dict[str, Expected]:
    _no_nextn(keys)
    _whole_head_rope(keys, shape)
    if shape.q_width != shape.width:
        raise keys.refuse("attention.key_length", f"{shape.width} / {shape.heads}")
    block = {
        **_attention(shape, shape.q_width),
        "ffn_norm.weight": _small(shape.width),
        **_ffn(shape),
    }
    bias = {"output.bias": _small(shape.vocab, required=False)}
    return _outside_blocks(shape) | bias | _in_blocks(range(shape.blocks), block)


def _qwen3(keys: Keys, shape: Shape) -> dict[str, Expected]:
    _no_nextn(keys)
    _whole_head_rope(keys, shape)
    block = {
        **_attention(shape, shape.q_width),
        **_head_norms(shape),
        "ffn_norm.weight": _small(shape.width),
        **_ffn(shape),
    }
    return _outside_blocks(shape) | _in_blocks(range(shape.blocks), block)


def _gemma3(keys: Keys, shape: Shape) -> dict[str, Expected]:
    _no_nextn(keys)
    block = {
        **_attention(shape, shape.q_width),
        **_head_norms(shape),
        "post_attention_norm.weight": _small(shape.width),
        "ffn_norm.weight": _small(shape.width),
        **_ffn(shape),
        "post_ffw_norm.weight": _small(shape.width),
    }
    return _outside_blocks(shape) | _in_blocks(range(shape.blocks), block)


def _qwen35(keys: Keys, shape: Shape) -> dict[str, Expected]:
    nextn = keys.integer("nextn_predict_layers", 0, shape.blocks - 1, 0)
    trunk = range(shape.blocks - nextn)
    sections = keys.integers("rope.dimension_sections", 4, 0, MAX_HEAD_WIDTH)
    if sections is None or not 0 < sum(sections) <= shape.head_width:
        raise keys.refuse("rope.dimension_sections", f"4 numbers, 1 to {shape.head_width} in all")
    attention = {
        **_attention(shape, 2 * shape.q_width),
        **_head_norms(shape),
        "post_attention_norm.weight": _small(shape.width),
        **_ffn(shape),
    }
    delta_net = {
        "attn_norm.weight": _small(shape.width),
        **_delta_net(keys, shape),
        "post_attention_norm.weight": _small(shape.width),
        **_ffn(shape),
    }
    recurrent = _recurrent_blocks(keys, shape.blocks, len(trunk))
    if not 0 < len(recurrent) < len(trunk):
        raise keys.refuse("full_attention_interval", "blocks of both kinds")
    tensors = _outside_blocks(shape)
    for block in trunk:
        chosen = delta_net if block in recurrent else attention
        tensors |= _in_blocks(range(block, block + 1), chosen)
    head = {
        **attention,
        "nextn.eh_proj.weight": _linear(2 * shape.width, shape.width),
        "nextn.enorm.weight": _small(shape.width),
        "nextn.hnorm.weight": _small(shape.width),
        "nextn.embed_tokens.weight": _linear(shape.width, shape.vocab, required=False),
        "nextn.shared_head_head.weight": _linear(shape.width, shape.vocab, required=False),
        "nextn.shared_head_norm.weight": _small(shape.width, required=False),
    }
    return tensors | _in_blocks(range(len(trunk), shape.blocks), head)


def _delta_net(keys: Keys, shape: Shape) -> dict[str, Expected]:
    kernel = keys.integer("ssm.conv_kernel", 2, 64)
    state = keys.integer("ssm.state_size", 1, MAX_HEAD_WIDTH)
    value_heads = keys.integer("ssm.time_step_rank", 1, MAX_HEADS)
    key_heads = keys.integer("ssm.group_count", 1, MAX_HEADS)
    inner = keys.integer("ssm.inner_size", 1, MAX_WIDTH)
    if inner != state * value_heads:
        raise keys.refuse("ssm.inner_size", f"{state * value_heads}, state size times heads")
    if value_heads % key_heads:
        raise keys.refuse("ssm.group_count", f"a divisor of {value_heads}")
    mixed = 2 * state * key_heads + inner
    return {
        "attn_qkv.weight": _linear(shape.width, mixed),
        "attn_gate.weight": _linear(shape.width, inner),
        "ssm_conv1d.weight": _small(kernel, mixed),
        "ssm_dt.bias": _small(value_heads),
        "ssm_a": _small(value_heads),
        "ssm_beta.weight": _linear(shape.width, value_heads),
        "ssm_alpha.weight": _linear(shape.width, value_heads),
        "ssm_norm.weight": _small(state),
        "ssm_out.weight": _linear(inner, shape.width),
    }


def _recurrent_blocks(keys: Keys, blocks: int, trunk: int) -> set[int]:
    given = keys.integers("attention.recurrent_layers", blocks, 0, 1)
    if given is not None:
        return {block for block in range(trunk) if given[block]}
    interval = keys.integer("full_attention_interval", 1, MAX_BLOCKS, 4)
    return {block for block in range(trunk) if (block + 1) % interval}


_BUILDERS: dict[str, Callable[[Keys, Shape], dict[str, Expected]]] = {
    name: (lambda keys, shape, build=build: _with_scales(build(keys, shape)))
    for name, build in (
        ("llama", _llama),
        ("qwen2", _qwen2),
        ("qwen3", _qwen3),
        ("gemma3", _gemma3),
        ("qwen35", _qwen35),
    )
}
CHECKED = frozenset(_BUILDERS)
