"""The published layouts of drafters' checkpoints: their tensors, shapes and settings.

Medusa: https://github.com/FasterDecoding/Medusa. EAGLE-1 and EAGLE-3:
https://github.com/SafeAILab/EAGLE. DFlash: https://github.com/z-lab/dflash.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from engine.drafts.errors import BadConfig, UnknownLayout, Unsupported, WrongTarget
from engine.drafts.safetensors import StoredTensor
from engine.gguf.keys import Keys
from engine.gguf.splits import GgufModel
from engine.prefiller.output import MetadataValue

MAX_WIDTH, MAX_LAYERS, MAX_HEADS, MAX_VOCAB, MAX_CONTEXT = 1 << 16, 64, 1 << 10, 1 << 21, 1 << 30


class Method(StrEnum):
    MEDUSA = "medusa"
    EAGLE = "eagle"
    EAGLE3 = "eagle3"
    DFLASH = "dflash"

    @property
    def shown(self) -> str:
        return {"medusa": "Medusa", "eagle": "EAGLE-1", "eagle3": "EAGLE-3", "dflash": "DFlash"}[
            self
        ]

    @property
    def carries_tokens(self) -> bool:
        """Whether the library loads the file, and therefore wants a tokenizer in it."""
        return self in (Method.EAGLE3, Method.DFLASH)


@dataclass(frozen=True)
class Wanted:
    """Where a checkpoint's tensor goes. `heads`: the rows are so many heads, whose halves the
    library turns as neighbouring pairs."""

    name: str
    shape: tuple[int, ...]
    required: bool = True
    heads: int = 0


@dataclass(frozen=True)
class Layout:
    """`wanted` by the checkpoint's names; `settings` are the file's keys below its architecture."""

    method: Method
    wanted: Mapping[str, Wanted]
    settings: Mapping[str, MetadataValue]
    ignored: tuple[str, ...] = ()


class Config:
    """config.json, asked for one value at a time."""

    def __init__(self, values: Mapping[str, Any], path: str) -> None:
        self._values, self._path = values, path

    def get(self, key: str) -> Any:
        return self._values.get(key)

    def inner(self, key: str) -> Config:
        value = self._values.get(key)
        fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        return Config(fields, self._path)

    def whole(self, key: str, most: int, default: int | None = None, least: int = 1) -> int:
        value = self._values.get(key)
        value = default if value is None else value
        if type(value) is not int or not least <= value <= most:
            raise self.refuse(key, f"a whole number from {least} to {most}")
        return value

    def number(self, key: str, default: float) -> float:
        value = self._values.get(key)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
            raise self.refuse(key, "a number above 0")
        return float(value)

    def wholes(self, key: str, most: int) -> list[int] | None:
        value: Any = self._values.get(key)
        if value is None:
            return None
        values = cast("list[Any]", value) if isinstance(value, list) else []
        if not 0 < len(values) <= MAX_LAYERS or any(
            type(one) is not int or not 0 <= one <= most for one in values
        ):
            raise self.refuse(key, f"a list of whole numbers up to {most}")
        return values

    def refuse(self, key: str, expected: str) -> BadConfig:
        return BadConfig(path=self._path, key=key, value=self._values.get(key), expected=expected)

    def without(self, *keys: str) -> None:
        """Refuses a checkpoint that asks for any of `keys`."""
        for key in keys:
            if self._values.get(key) not in (None, False, {}, 0):
                raise Unsupported(path=self._path, what=key)


class Target:
    """What a drafter has to know of the model it drafts for."""

    def __init__(self, model: GgufModel) -> None:
        self.model = model
        self.path = model.path
        self.architecture = architecture = Keys(model).text("general.architecture")
        keys = Keys(model, f"{architecture}.")
        self.width = keys.integer("embedding_length", 1, MAX_WIDTH)
        nextn = model.metadata.get(f"{architecture}.nextn_predict_layers", 0)
        blocks = keys.integer("block_count", 1, 1 << 12)
        self.blocks = blocks - (nextn if isinstance(nextn, int) else 0)
        self.context = keys.integer("context_length", 1, MAX_CONTEXT)
        tokens = model.metadata.get("tokenizer.ggml.tokens")
        self.vocab = (
            len(tokens) if tokens is not None and not isinstance(tokens, int | float) else 0
        )

    def require(self, path: str, what: str, found: int, expected: int) -> None:
        if found != expected:
            raise WrongTarget(
                path=path, target=str(self.path), what=what, found=found, expected=expected
            )


def recognise(path: str, tensors: Mapping[str, StoredTensor]) -> Method:
    names = set(tensors)
    if names and all(_MEDUSA.fullmatch(name) for name in names):
        return Method.MEDUSA
    if "fc.weight" in names:
        if any(name.endswith(".hidden_norm.weight") for name in names):
            return Method.EAGLE3
        if "hidden_norm.weight" in names:
            return Method.DFLASH
        if "layers.0.self_attn.q_proj.weight" in names:
            return Method.EAGLE
    raise UnknownLayout(path=path, tensor=min(names, default="none"))


def layout_of(
    method: Method,
    values: Mapping[str, Any],
    tensors: Mapping[str, StoredTensor],
    target: Target | None,
    path: str,
) -> Layout:
    """What the configuration calls for, checked against the target where there is one."""
    config = Config(values, path)
    if method is Method.MEDUSA:
        return _medusa(config, tensors, target, path)
    make = {Method.EAGLE: _eagle, Method.EAGLE3: _eagle3, Method.DFLASH: _dflash}[method]
    return make(config, tensors, target, path)


# Medusa

_MEDUSA = re.compile(
    r"(?:medusa_head\.)?(\d{1,3})\.(\d{1,3})\.(linear\.weight|linear\.bias|weight)"
)


def _medusa(
    config: Config, tensors: Mapping[str, StoredTensor], target: Target | None, path: str
) -> Layout:
    heads = config.whole("medusa_num_heads", MAX_LAYERS)
    layers = config.whole("medusa_num_layers", MAX_LAYERS)
    prefix = "medusa_head." if any(name.startswith("medusa_head.") for name in tensors) else ""
    first = tensors.get(f"{prefix}0.{layers}.weight")
    shape = first.shape if first else ()
    if len(shape) != 2 or not (1 <= shape[0] <= MAX_VOCAB and 1 <= shape[1] <= MAX_WIDTH):
        raise config.refuse("medusa_num_layers", "the number of layers before each head's output")
    vocab, width = shape
    if target:
        target.require(path, "width", width, target.width)
        target.require(path, "vocabulary", vocab, target.vocab)
    wanted: dict[str, Wanted] = {}
    for head in range(heads):
        for layer in range(layers):
            theirs, ours = f"{prefix}{head}.{layer}.linear", f"medusa.{head}.{layer}"
            wanted[f"{theirs}.weight"] = Wanted(f"{ours}.weight", (width, width))
            wanted[f"{theirs}.bias"] = Wanted(f"{ours}.bias", (width,))
        name = f"{prefix}{head}.{layers}.weight"
        wanted[name] = Wanted(f"medusa.{head}.output.weight", (vocab, width))
    settings: dict[str, MetadataValue] = {
        "embedding_length": width,
        "vocab_size": vocab,
        "head_count": heads,
        "layer_count": layers,
    }
    return Layout(Method.MEDUSA, wanted, settings)


# The others are transformers


@dataclass(frozen=True)
class _Shape:
    width: int
    ffn: int
    heads: int
    kv_heads: int
    head: int
    settings: Mapping[str, MetadataValue]


def _transformer(config: Config, layers: int, target: Target | None) -> _Shape:
    config.without("rope_scaling", "attention_bias", "qkv_bias")
    if config.get("hidden_act") not in (None, "silu"):
        raise config.refuse("hidden_act", "silu")
    width = config.whole("hidden_size", MAX_WIDTH)
    heads = config.whole("num_attention_heads", MAX_HEADS)
    kv_heads = config.whole("num_key_value_heads", heads, heads)
    head = config.whole("head_dim", MAX_WIDTH, max(1, width // heads))
    if heads % kv_heads or head % 2:
        raise config.refuse("num_key_value_heads", "a divisor of the number of heads")
    ffn = config.whole("intermediate_size", MAX_WIDTH * 16)
    context = config.whole(
        "max_position_embeddings", MAX_CONTEXT, target.context if target else 4096
    )
    settings: dict[str, MetadataValue] = {
        "context_length": context,
        "embedding_length": width,
        "block_count": layers,
        "feed_forward_length": ffn,
        "attention.head_count": heads,
        "attention.head_count_kv": kv_heads,
        "attention.key_length": head,
        "attention.value_length": head,
        "attention.layer_norm_rms_epsilon": config.number("rms_norm_eps", 1e-6),
        "rope.dimension_count": head,
        "rope.freq_base": config.number("rope_theta", 10000.0),
    }
    return _Shape(width, ffn, heads, kv_heads, head, settings)


def _block(
    shape: _Shape, theirs: str, ours: str, inputs: int, *, pairs: bool = False
) -> dict[str, Wanted]:
    q, kv = shape.heads * shape.head, shape.kv_heads * shape.head
    return {
        f"{theirs}self_attn.q_proj.weight": Wanted(
            f"{ours}attn_q.weight", (q, inputs), heads=shape.heads if pairs else 0
        ),
        f"{theirs}self_attn.k_proj.weight": Wanted(
            f"{ours}attn_k.weight", (kv, inputs), heads=shape.kv_heads if pairs else 0
        ),
        f"{theirs}self_attn.v_proj.weight": Wanted(f"{ours}attn_v.weight", (kv, inputs)),
        f"{theirs}self_attn.o_proj.weight": Wanted(f"{ours}attn_output.weight", (shape.width, q)),
        f"{theirs}mlp.gate_proj.weight": Wanted(f"{ours}ffn_gate.weight", (shape.ffn, shape.width)),
        f"{theirs}mlp.up_proj.weight": Wanted(f"{ours}ffn_up.weight", (shape.ffn, shape.width)),
        f"{theirs}mlp.down_proj.weight": Wanted(f"{ours}ffn_down.weight", (shape.width, shape.ffn)),
        f"{theirs}post_attention_layernorm.weight": Wanted(
            f"{ours}ffn_norm.weight", (shape.width,)
        ),
    }


def _eagle(
    config: Config, tensors: Mapping[str, StoredTensor], target: Target | None, path: str
) -> Layout:
    del tensors
    layers = config.whole("num_hidden_layers", 1, 1)
    shape = _transformer(config, layers, target)
    vocab = config.whole("vocab_size", MAX_VOCAB)
    if target:
        target.require(path, "width", shape.width, target.width)
        target.require(path, "vocabulary", vocab, target.vocab)
    wanted = {
        "fc.weight": Wanted("fc.weight", (shape.width, 2 * shape.width)),
        "fc.bias": Wanted("fc.bias", (shape.width,), required=False),
        "embed_tokens.weight": Wanted("token_embd.weight", (vocab, shape.width), required=False),
        **_block(shape, "layers.0.", "blk.0.", shape.width),
    }
    return Layout(Method.EAGLE, wanted, {**shape.settings, "vocab_size": vocab})


def _eagle3(
    config: Config, tensors: Mapping[str, StoredTensor], target: Target | None, path: str
) -> Layout:
    assert target is not None
    shape = _transformer(config, config.whole("num_hidden_layers", 1, 1), target)
    drafted = config.whole("draft_vocab_size", MAX_VOCAB, target.vocab)
    target.require(path, "vocabulary", config.whole("vocab_size", MAX_VOCAB), target.vocab)
    fusion = tensors["fc.weight"].shape
    implied = fusion[-1] // 3 if fusion else 0
    width = config.whole("target_hidden_size", MAX_WIDTH, implied)
    target.require(path, "width", width, target.width)
    layers = config.wholes("eagle_aux_hidden_state_layer_ids", target.blocks)
    layers = layers or config.inner("eagle_config").wholes(
        "eagle_aux_hidden_state_layer_ids", target.blocks
    )
    layers = layers or [2, target.blocks // 2, target.blocks - 3]
    if len(layers) != 3 or min(layers) < 0:
        raise config.refuse("eagle_aux_hidden_state_layer_ids", "three of the model's blocks")
    theirs = "midlayer." if "midlayer.hidden_norm.weight" in tensors else "layers.0."
    before_fc = bool(config.get("norm_before_fc"))
    wanted = {
        "fc.weight": Wanted("fc.weight", (shape.width, 3 * width)),
        "norm.weight": Wanted("output_norm.weight", (shape.width,)),
        f"{theirs}input_layernorm.weight": Wanted("blk.0.attn_norm.weight", (shape.width,)),
        f"{theirs}hidden_norm.weight": Wanted("blk.0.attn_norm_2.weight", (shape.width,)),
        "lm_head.weight": Wanted("output.weight", (drafted, shape.width), required=False),
        "embed_tokens.weight": Wanted(
            "token_embd.weight", (target.vocab, shape.width), required=shape.width != width
        ),
        "d2t": Wanted("d2t", (drafted,), required=drafted != target.vocab),
        **_block(shape, theirs, "blk.0.", 2 * shape.width, pairs=True),
    }
    if before_fc:
        wanted["input_norm.weight"] = Wanted("enc.output_norm.weight", (3 * width,))
    settings: dict[str, MetadataValue] = {
        **shape.settings,
        "vocab_size": target.vocab,
        "target_layers": layers,
        "target_hidden_size": width,
        "norm_before_residual": bool(config.get("norm_before_residual")),
        "norm_before_fc": before_fc,
    }
    return Layout(Method.EAGLE3, wanted, settings, ignored=("t2d",))


def _dflash(
    config: Config, tensors: Mapping[str, StoredTensor], target: Target | None, path: str
) -> Layout:
    del tensors
    assert target is not None
    count = config.whole("num_hidden_layers", MAX_LAYERS)
    shape = _transformer(config, count, target)
    config.without("use_sliding_window")
    inner = config.inner("dflash_config")
    inner.without("use_swa", "conv_kernel_size", "attention_value_scale", "causal")
    target.require(path, "width", shape.width, target.width)
    target.require(path, "vocabulary", config.whole("vocab_size", MAX_VOCAB), target.vocab)
    layers = inner.wholes("target_layer_ids", target.blocks - 1)
    if not layers:
        raise inner.refuse("target_layer_ids", "a list of the model's blocks")
    block = config.whole("block_size", 1 << 8, 16, least=2)
    block = inner.whole("block_size", 1 << 8, block, least=2)
    wanted = {
        "fc.weight": Wanted("fc.weight", (shape.width, len(layers) * shape.width)),
        "hidden_norm.weight": Wanted("enc.output_norm.weight", (shape.width,)),
        "norm.weight": Wanted("output_norm.weight", (shape.width,)),
    }
    for layer in range(count):
        theirs, ours = f"layers.{layer}.", f"blk.{layer}."
        wanted |= _block(shape, theirs, ours, shape.width)
        wanted[f"{theirs}input_layernorm.weight"] = Wanted(
            f"{ours}attn_norm.weight", (shape.width,)
        )
        for part in "qk":
            wanted[f"{theirs}self_attn.{part}_norm.weight"] = Wanted(
                f"{ours}attn_{part}_norm.weight", (shape.head,)
            )
    settings: dict[str, MetadataValue] = {
        **shape.settings,
        "vocab_size": target.vocab,
        "target_layers": [layer + 1 for layer in layers],  # the library counts blocks' inputs
        "block_size": block,
        # Read by the file's writer, which knows where tokens' ids belong.
        "mask_token_id": inner.whole("mask_token_id", target.vocab - 1, least=0),
    }
    return Layout(Method.DFLASH, wanted, settings)
