"""What a plan has to know of a decoder and its prefiller, taken from their headers."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict

from engine.gguf.errors import MissingKey
from engine.gguf.reader import GgufArray, TensorInfo
from engine.gguf.splits import GgufModel
from engine.gguf.types import GgmlType
from engine.prefiller.decoder import label_in
from engine.prefiller.formats import Prefiller
from engine.prefiller.linears import NVFP4_BLOCK, block_linear
from engine.prefiller.pairing import check_pairing

# Below this many bits a weight a prefiller's better reading shows in the answers; from three bits
# up the published gains are gone.
QUALITY_BITS = 2.75

_BLOCK = re.compile(r"blk\.(\d+)\.(.+)")
_EXPERTS = re.compile(r"ffn_(?:gate|up|down|gate_up)_exps\.weight")
_NVFP4 = GgmlType.NVFP4.block
_GEMMA3_PATTERN = 6  # one block in so many sees everything (llama.cpp: models/gemma3.cpp)


class Data(BaseModel):
    model_config = ConfigDict(frozen=True)


class BlockFacts(Data):
    """One block. Bytes of its decoder weights, and of those that prefill weights replace;
    `linear_weights` of them in number, of which `active_weights` multiply each token.

    `kv_values` are cached for each token, for the last `window` tokens if that is given;
    `state_bytes` do not grow. `attention_width`: values of all query heads.
    """

    weight_bytes: int
    linear_bytes: int
    linear_weights: int
    active_weights: int
    kv_values: int
    window: int | None
    state_bytes: int
    attention_width: int

    @property
    def nvfp4_bytes(self) -> int:
        """Its linear weights in NVFP4."""
        return self.linear_weights // _NVFP4.elements * _NVFP4.nbytes


class ModelFacts(Data):
    """A decoder. `products`: the number of weights that multiply each token, by ggml type;
    `decode_bytes`: bytes read for each token that is written, by type. `embedding_bytes` is
    looked up, not read whole; with `tied`, the head is a copy of it.
    """

    name: str
    architecture: str
    label: str | None
    blocks: tuple[BlockFacts, ...]
    embedding_bytes: int
    head_bytes: int
    tied: bool
    width: int
    ffn: int
    vocab: int
    trained_context: int
    experts: int
    products: dict[str, int]
    decode_bytes: dict[str, int]

    @property
    def bits(self) -> float:
        """Bits a weight, over the blocks' linear weights."""
        weights = sum(block.linear_weights for block in self.blocks)
        return 8 * sum(block.linear_bytes for block in self.blocks) / weights if weights else 16.0

    @property
    def quality_gain(self) -> bool:
        """Whether a prefiller makes this decoder's answers better, by what has been published."""
        return self.bits < QUALITY_BITS


class PrefillerFacts(Data):
    """A prefiller: bytes of each block, and whether it belongs to the decoder (`matched`), with
    the reasons; without `fits` the two cannot compute at all. `assumed`: there is none; this is
    what one built for the decoder would be."""

    name: str
    block_bytes: tuple[int, ...]
    matched: bool
    reasons: tuple[str, ...] = ()
    fits: bool = True
    assumed: bool = False

    @property
    def nbytes(self) -> int:
        return sum(self.block_bytes)


def model_facts(model: GgufModel) -> ModelFacts:
    """From the header alone. Raises MissingKey for a file that is no model."""
    metadata = model.metadata
    architecture = metadata.get("general.architecture")
    if not isinstance(architecture, str):
        raise MissingKey(model.path, key="general.architecture")
    keys = _Numbers(model, architecture)
    count = keys.get("block_count")
    if not count:
        raise MissingKey(model.path, key=f"{architecture}.block_count")
    reading = max(1, count - keys.get("nextn_predict_layers"))
    by_block: dict[int, list[TensorInfo]] = defaultdict(list)
    outside: dict[str, TensorInfo] = {}
    for tensor in model.tensors:
        match = _BLOCK.fullmatch(tensor.name)
        if match is None:
            outside[tensor.name] = tensor
        elif int(match[1]) < reading:
            by_block[int(match[1])].append(tensor)
    embedding = outside.get("token_embd.weight")
    head = outside.get("output.weight", embedding)
    experts = keys.get("expert_count")
    used = keys.get("expert_used_count") / experts if experts else 1.0
    products: Counter[str] = Counter()
    decode: Counter[str] = Counter()
    for tensor in (one for tensors in by_block.values() for one in tensors):
        share = used if _is_expert(tensor) else 1.0
        decode[tensor.type.name] += round(tensor.nbytes * share)
        if _is_linear(tensor):
            products[tensor.type.name] += round(math.prod(tensor.shape) * share)
    if head is not None:
        decode[head.type.name] += head.nbytes
    name = metadata.get("general.name")
    return ModelFacts(
        name=name if isinstance(name, str) and name else model.path.stem,
        architecture=architecture,
        label=label_in(model.path.stem),
        blocks=tuple(_block(index, by_block[index], keys, used) for index in range(reading)),
        embedding_bytes=embedding.nbytes if embedding else 0,
        head_bytes=head.nbytes if head else 0,
        tied="output.weight" not in outside,
        width=keys.get("embedding_length"),
        ffn=keys.get("feed_forward_length") or keys.get("expert_feed_forward_length"),
        vocab=embedding.shape[1] if embedding and len(embedding.shape) > 1 else 0,
        trained_context=keys.get("context_length"),
        experts=experts,
        products=dict(products),
        decode_bytes=dict(decode),
    )


def prefiller_facts(prefiller: Prefiller, model: GgufModel, facts: ModelFacts) -> PrefillerFacts:
    """What `prefiller` is to `model`, whose `facts` are given. A decoder with experts has no
    pairing to check: it is refused for the experts."""
    pairing = None if facts.experts else check_pairing(prefiller, model)
    return PrefillerFacts(
        name=prefiller.path.name,
        block_bytes=block_bytes(prefiller, facts),
        matched=pairing is None or pairing.matched,
        reasons=pairing.reasons if pairing else (),
        fits=pairing is None or pairing.fits,
    )


def block_bytes(prefiller: Prefiller, facts: ModelFacts) -> tuple[int, ...]:
    """The prefiller's bytes for each of the decoder's blocks."""
    sizes = [0] * len(facts.blocks)
    for tensor in prefiller.tensors:
        if tensor.block < len(sizes):
            sizes[tensor.block] += tensor.nbytes
    return tuple(sizes)


def assumed_prefiller(facts: ModelFacts) -> PrefillerFacts:
    """The prefiller that would be built for this decoder."""
    return PrefillerFacts(
        name=f"a prefiller built for {facts.name}",
        block_bytes=tuple(block.nvfp4_bytes for block in facts.blocks),
        matched=True,
        assumed=True,
    )


class _Numbers:
    """Whole numbers of the metadata, 0 where there are none; the first of a list."""

    def __init__(self, model: GgufModel, architecture: str) -> None:
        self._metadata = model.metadata
        self.architecture = architecture

    def get(self, key: str, block: int = 0) -> int:
        value = self._metadata.get(f"{self.architecture}.{key}")
        if isinstance(value, GgufArray):
            value = value[min(block, len(value) - 1)] if len(value) else None
        return value if isinstance(value, int) and value > 0 else 0


def _block(index: int, tensors: list[TensorInfo], keys: _Numbers, used: float) -> BlockFacts:
    by_name = {tensor.name.split(".", 2)[2]: tensor for tensor in tensors}
    linears = [tensor for tensor in tensors if _is_linear(tensor)]
    recurrent = "ssm_conv1d.weight" in by_name
    heads = keys.get("attention.head_count", index)
    width = keys.get("embedding_length")
    head = keys.get("attention.key_length") or (width // heads if heads else 0)
    kv = 2 * head * (keys.get("attention.head_count_kv", index) or heads)
    if "attn_k.weight" in by_name and "attn_v.weight" in by_name:
        kv = by_name["attn_k.weight"].shape[1] + by_name["attn_v.weight"].shape[1]
    output = by_name.get("attn_output.weight")
    attention = output.shape[0] if output and len(output.shape) == 2 else heads * head
    return BlockFacts(
        weight_bytes=sum(tensor.nbytes for tensor in tensors),
        linear_bytes=sum(tensor.nbytes for tensor in linears),
        linear_weights=_weights(linears, 1.0),
        active_weights=_weights(linears, used),
        kv_values=0 if recurrent else kv,
        window=None if recurrent else _window(index, keys),
        state_bytes=_state_bytes(by_name["ssm_conv1d.weight"], keys) if recurrent else 0,
        attention_width=0 if recurrent else attention,
    )


def _weights(linears: Iterable[TensorInfo], used: float) -> int:
    return sum(
        round(math.prod(tensor.shape) * (used if _is_expert(tensor) else 1.0)) for tensor in linears
    )


def _is_expert(tensor: TensorInfo) -> bool:
    match = _BLOCK.fullmatch(tensor.name)
    return match is not None and _EXPERTS.fullmatch(match[2]) is not None


def _is_linear(tensor: TensorInfo) -> bool:
    if not tensor.shape or tensor.shape[0] % NVFP4_BLOCK:
        return False
    return _is_expert(tensor) or (len(tensor.shape) == 2 and block_linear(tensor.name) is not None)


def _window(index: int, keys: _Numbers) -> int | None:
    # Where the pattern of an architecture is not known here, its blocks are taken to see all.
    windowed = keys.architecture == "gemma3" and (index + 1) % _GEMMA3_PATTERN
    return (keys.get("attention.sliding_window") or None) if windowed else None


def _state_bytes(convolution: TensorInfo, keys: _Numbers) -> int:
    kernel, mixed = convolution.shape[0], convolution.shape[1]
    recurrence = keys.get("ssm.state_size") * keys.get("ssm.inner_size")
    return 4 * ((kernel - 1) * mixed + recurrence)
