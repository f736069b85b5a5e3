"""Writes a made-up decoder of a published shape and a prefiller for it: for speed, not for sense.

The weights are random, sane and finite; the tokenizer has one token a byte, so that any text
can be read. Both files appear only when they are whole.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from engine.bench.errors import UnknownType
from engine.bench.random_weights import PIECE, WEIGHT_TYPES, RandomWeights
from engine.bench.shapes import ModelShape, Role, hyperparameters, tensors
from engine.gguf.splits import open_model
from engine.gguf.types import GgmlType
from engine.prefiller.build import prefiller_header, prefiller_metadata
from engine.prefiller.decoder import Decoder, describe_decoder
from engine.prefiller.errors import NoSpace, OutputExists
from engine.prefiller.linears import BlockLinear, scale_groups
from engine.prefiller.output import (
    MetadataValue,
    PlannedTensor,
    header,
    padding,
    whole_or_nothing,
)

# Bytes done, and in all.
OnBytes = Callable[[int, int], None]

# Published decoders of few bits keep their embedding and head in about this.
_HEAD_TYPE = GgmlType.Q6_K
_GATE_TYPE = GgmlType.Q8_0
_LOGITS_DEVIATION = 4.0  # a clear winner, and not always the same one

_SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_NORMAL, _CONTROL, _UNUSED = 1, 3, 5  # the library's kinds of tokens
_CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclass(frozen=True, slots=True)
class Synthetic:
    decoder: Path
    prefiller: Path


def weight_type(name: str) -> GgmlType:
    """The type called `name`. Raises UnknownType."""
    for type_ in WEIGHT_TYPES:
        if type_.name == name.upper():
            return type_
    raise UnknownType(type=name, known=", ".join(type_.name for type_ in WEIGHT_TYPES))


def write_synthetic(
    shape: ModelShape,
    type_: GgmlType,
    folder: Path,
    name: str,
    *,
    seed: int = 0,
    overwrite: bool = False,
    progress: OnBytes | None = None,
) -> Synthetic:
    """Write `<name>-<type>.gguf` and `<name>-<type>.prefiller.gguf` into `folder`, made if needed.

    `type_` is the type of the blocks' linear weights. Same arguments, same bytes. Raises
    NoSpace before anything is written, OutputExists, WriteFailed.
    """
    stem = f"{name}-{type_.name}"
    made = Synthetic(folder / f"{stem}.gguf", folder / f"{stem}.prefiller.gguf")
    planned = [
        (PlannedTensor(tensor, size, _type(role, type_)), role)
        for tensor, size, role in tensors(shape)
    ]
    metadata = synthetic_metadata(shape, f"made-up {stem}")
    start = header(metadata, [tensor for tensor, _ in planned])
    decoder_bytes = len(start) + sum(_room(tensor) for tensor, _ in planned)
    total = decoder_bytes + sum(
        _room(PlannedTensor(tensor.name, tensor.shape))
        for tensor, role in planned
        if role is Role.LINEAR
    )
    folder.mkdir(parents=True, exist_ok=True)
    _check_outputs(folder, (made.decoder, made.prefiller), total, overwrite)
    written = _Written(total, progress)
    weights = _Weights(np.random.default_rng(seed))
    with whole_or_nothing(made.decoder, decoder_bytes, overwrite=overwrite) as file:
        file.write(start)
        for tensor, role in planned:
            weights.write(file, tensor, role)
            written.advance(file, tensor)
    try:
        _write_prefiller(made, weights, written, overwrite)
    except BaseException:
        made.decoder.unlink(missing_ok=True)
        raise
    return made


def _check_outputs(folder: Path, files: Sequence[Path], needed: int, overwrite: bool) -> None:
    for file in files:
        if file.exists() and not overwrite:
            raise OutputExists(path=str(file))
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise NoSpace(path=str(folder), needed=needed, free=free)


def _write_prefiller(
    made: Synthetic, weights: _Weights, written: _Written, overwrite: bool
) -> None:
    model = open_model(made.decoder)
    facts = describe_decoder(model)
    planned = [
        PlannedTensor(place.name, facts.linears[place].shape)
        for group in scale_groups(facts.linears)
        for place in group
    ]
    metadata = prefiller_metadata(facts, model, len(planned), method="random")
    scales = _scales(facts, weights)
    start = prefiller_header(metadata, planned, scales)
    nbytes = len(start) + sum(map(_room, planned))
    with whole_or_nothing(made.prefiller, nbytes, overwrite=overwrite) as file:
        file.write(start)
        for tensor in planned:
            weights.prefill(tensor.shape[0]).write(file, math.prod(tensor.shape))
            written.advance(file, tensor)


def _scales(facts: Decoder, weights: _Weights) -> Mapping[str, float]:
    def scale(place: BlockLinear) -> float:
        return weights.prefill(facts.linears[place].shape[0]).scale

    return {place.name: scale(place) for place in facts.linears}


class _Weights:
    """The weights that each role wants; those of one type and row length come from one pool."""

    def __init__(self, random: np.random.Generator) -> None:
        self._random = random
        self._pools: dict[tuple[GgmlType, float, bool], RandomWeights] = {}

    def write(self, file: BinaryIO, tensor: PlannedTensor, role: Role) -> None:
        columns, count = tensor.shape[0], math.prod(tensor.shape)
        if len(tensor.shape) == 2 and count % PIECE == 0:
            spread = 1 / math.sqrt(columns)  # what goes in with variance 1 comes out with it
            if role is Role.HEAD:
                spread *= _LOGITS_DEVIATION
            elif role is Role.EMBEDDING:
                spread = 1.0
            self._pool(tensor.type, spread).write(file, count)
        else:
            file.write(self._parameters(count, role).data)

    def prefill(self, columns: int) -> RandomWeights:
        """NVFP4 under a tensor scale."""
        return self._pool(GgmlType.NVFP4, 1 / math.sqrt(columns), under_scale=True)

    def _pool(
        self, type_: GgmlType, deviation: float, *, under_scale: bool = False
    ) -> RandomWeights:
        key = type_, deviation, under_scale
        if key not in self._pools:
            self._pools[key] = RandomWeights(
                type_, deviation, self._random, under_scale=under_scale
            )
        return self._pools[key]

    def _parameters(self, count: int, role: Role) -> NDArray[np.float32]:
        noise = self._random.standard_normal(count, np.float32)
        if role is Role.DECAY:
            return -np.exp(noise - np.float32(3))
        if role is Role.NORM:
            return np.float32(1) + noise * np.float32(0.1)
        return noise * np.float32(0.1)


class _Written:
    """Keeps count of both files' bytes."""

    def __init__(self, total: int, progress: OnBytes | None) -> None:
        self._done, self._total, self._progress = 0, total, progress

    def advance(self, file: BinaryIO, tensor: PlannedTensor) -> None:
        """Pads what was written of `tensor`, and tells."""
        file.write(bytes(padding(tensor.nbytes)))
        self._done += _room(tensor)
        if self._progress:
            self._progress(self._done, self._total)


def _room(tensor: PlannedTensor) -> int:
    return tensor.nbytes + padding(tensor.nbytes)


def _type(role: Role, linear: GgmlType) -> GgmlType:
    if role is Role.LINEAR:
        return linear
    if role in (Role.EMBEDDING, Role.HEAD):
        return _HEAD_TYPE
    return _GATE_TYPE if role is Role.GATE else GgmlType.F32


def synthetic_metadata(shape: ModelShape, name: str) -> dict[str, MetadataValue]:
    """What a made-up model says of itself, tokenizer and chat template included."""
    return {
        "general.architecture": shape.arch,
        "general.type": "model",
        "general.name": name,
        **hyperparameters(shape),
        **_tokenizer(shape.vocab),
    }


def _tokenizer(vocab: int) -> dict[str, MetadataValue]:
    """One token a byte, the chat's marks, and as many unused ones as the vocabulary is large."""
    named = [*_byte_characters(), *_SPECIAL_TOKENS]
    unused = vocab - len(named)
    end = named.index("<|im_end|>")
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": [*named, *(f"<|unused_{number}|>" for number in range(unused))],
        "tokenizer.ggml.token_type": [
            *[_NORMAL] * 256,
            *[_CONTROL] * len(_SPECIAL_TOKENS),
            *[_UNUSED] * unused,
        ],
        "tokenizer.ggml.merges": [],
        "tokenizer.ggml.bos_token_id": 256,
        "tokenizer.ggml.eos_token_id": end,
        "tokenizer.ggml.padding_token_id": 256,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": _CHAT_TEMPLATE,
    }


def _byte_characters() -> list[str]:
    """The printable stand-in for each byte that byte-level tokenizers use."""
    kept = {*range(33, 127), *range(161, 173), *range(174, 256)}
    moved = (chr(256 + number) for number in range(256))
    return [chr(byte) if byte in kept else next(moved) for byte in range(256)]
