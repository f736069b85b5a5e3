"""What a prefiller has to know of a decoder: its linear weights, its name and its quantisation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gguf import LlamaFileType

from engine.gguf.errors import MissingKey
from engine.gguf.reader import TensorInfo
from engine.gguf.splits import GgufModel
from engine.prefiller.errors import MixtureOfExperts
from engine.prefiller.linears import NVFP4_BLOCK, BlockLinear, block_linear

# As in file and folder names: IQ1_S, Q4_K_M, IQ2_XXS, TQ1_0, BF16.
_LABEL = re.compile(
    r"(?<![A-Z0-9])(?:I?Q[1-8]_(?:0|1|K_[SML]|K|XXS|XS|S|M|NL)|TQ[12]_0|BF16|F16|F32)(?![A-Z0-9_])"
)


@dataclass(frozen=True)
class Decoder:
    """`linears`: weights of the blocks that read a prompt, of those that NVFP4 can hold.

    `labels`: names of its quantisation, from its file's name and its metadata.
    """

    model: GgufModel
    architecture: str
    block_count: int
    name: str
    labels: tuple[str, ...]
    linears: Mapping[BlockLinear, TensorInfo]


def describe_decoder(model: GgufModel) -> Decoder:
    """Raises MixtureOfExperts for a decoder that no prefiller helps, MissingKey for no model."""
    architecture = model.metadata.get("general.architecture")
    if not isinstance(architecture, str):
        raise MissingKey(model.path, key="general.architecture")
    block_count = _count(model, f"{architecture}.block_count")
    if block_count is None:
        raise MissingKey(model.path, key=f"{architecture}.block_count")
    experts = _count(model, f"{architecture}.expert_count")
    if experts:
        raise MixtureOfExperts(path=str(model.path), experts=experts)
    # Blocks that only guess ahead (multi-token prediction) come last and read no prompt.
    reading = block_count - (_count(model, f"{architecture}.nextn_predict_layers") or 0)
    name = model.metadata.get("general.name")
    return Decoder(
        model=model,
        architecture=architecture,
        block_count=block_count,
        name=name if isinstance(name, str) and name else model.path.stem,
        labels=_labels(model),
        linears={
            place: tensor
            for tensor in model.tensors
            if (place := block_linear(tensor.name)) is not None
            and place.block < reading
            and len(tensor.shape) == 2
            and tensor.shape[0] % NVFP4_BLOCK == 0
        },
    )


def label_in(text: str) -> str | None:
    """The quantisation that a file's or folder's name ends in or carries; None without one."""
    found = _LABEL.findall(text.upper())
    return found[-1] if found else None


def _labels(model: GgufModel) -> tuple[str, ...]:
    labels = [label_in(model.path.stem)]
    number = _count(model, "general.file_type")
    if number is not None and number in {kind.value for kind in LlamaFileType}:
        labels.append(label_in(LlamaFileType(number).name.removeprefix("MOSTLY_")))
    return tuple(dict.fromkeys(label for label in labels if label))


def _count(model: GgufModel, key: str) -> int | None:
    value = model.metadata.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
