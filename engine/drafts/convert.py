"""Converts a drafter's published checkpoint (safetensors) to a GGUF file.

EAGLE-3 and DFlash become what the library loads. Medusa and EAGLE-1, which it does not know, get
our own layout: architecture `medusa` (`medusa.<head>.<layer>.weight`, `.bias`, and each head's
`medusa.<head>.output.weight`) and architecture `eagle` (`fc`, `blk.0.*` as in a llama, without
`attn_norm`; rotation by halves). Every file says which target it belongs to, where that is known.
"""

from __future__ import annotations

import importlib.metadata
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.drafts.errors import (
    BadTokens,
    MissingTensor,
    NeedsTarget,
    NotFinite,
    UnexpectedTensor,
    WrongShape,
    WrongType,
)
from engine.drafts.layouts import Layout, Method, Target, Wanted, layout_of, recognise
from engine.drafts.safetensors import StoredTensor, read_checkpoint
from engine.gguf.identity import decoder_hash
from engine.gguf.reader import GgufArray
from engine.gguf.splits import open_model
from engine.gguf.types import GgmlType
from engine.prefiller.output import (
    MetadataValue,
    PlannedTensor,
    header,
    padding,
    whole_or_nothing,
)

METHOD_KEY = "twofold.draft.method"
TOOL_KEY = "twofold.draft.tool"
TARGET_HASH_KEY = "twofold.draft.target_hash"
TARGET_NAME_KEY = "twofold.draft.target_name"
TOKENS = "tokenizer."
_TEMPLATE = "tokenizer.chat_template"
_MATRICES = {"F32": GgmlType.F32, "F16": GgmlType.F16, "BF16": GgmlType.BF16}


@dataclass(frozen=True)
class Converted:
    path: Path
    method: Method
    tensors: int
    nbytes: int
    target: str | None


def convert_draft(
    checkpoint: Path, out: Path, target: Path | None = None, *, overwrite: bool = False
) -> Converted:
    """Write the drafter in `checkpoint` (a file beside its config.json, or a folder) to `out`.

    `target`, the model it drafts for, is needed for EAGLE-3 and DFlash; where it is given, what
    does not fit it is refused. Raises a DraftError, a GgufError for the target, or an error of
    writing; nothing is left behind then.
    """
    config, stored = read_checkpoint(checkpoint)
    path = str(checkpoint)
    tensors = {name.removeprefix("model."): tensor for name, tensor in stored.items()}
    method = recognise(path, tensors)
    model = None if target is None else Target(open_model(target))
    if method.carries_tokens and model is None:
        raise NeedsTarget(path=path, method=method.shown)
    layout = layout_of(method, config, tensors, model, path)
    chosen = _chosen(layout, tensors, path)
    planned = [
        PlannedTensor(wanted.name, tensor.shape[::-1], _type(wanted, tensor))
        for wanted, tensor in chosen
    ]
    start = header(_metadata(layout, checkpoint, model), planned)
    nbytes = len(start) + sum(one.nbytes + padding(one.nbytes) for one in planned)
    with whole_or_nothing(out, nbytes, overwrite=overwrite) as file:
        file.write(start)
        for (wanted, tensor), plan in zip(chosen, planned, strict=True):
            raw = _values(wanted, tensor, model, path).tobytes()
            file.write(raw + bytes(padding(plan.nbytes)))
    name = str(model.path) if model else None
    return Converted(out, method, len(planned), nbytes, name)


def _chosen(
    layout: Layout, tensors: Mapping[str, StoredTensor], path: str
) -> list[tuple[Wanted, StoredTensor]]:
    for name, wanted in layout.wanted.items():
        if wanted.required and name not in tensors:
            raise MissingTensor(path=path, tensor=name)
    chosen: list[tuple[Wanted, StoredTensor]] = []
    for name, tensor in tensors.items():
        if name in layout.ignored:
            continue
        wanted = layout.wanted.get(name)
        if wanted is None:
            raise UnexpectedTensor(path=path, tensor=name, method=layout.method.shown)
        if tensor.shape != wanted.shape:
            raise WrongShape(
                path=path, tensor=name, shape=list(tensor.shape), expected=list(wanted.shape)
            )
        whole = tensor.type in ("I64", "I32")
        if whole != (wanted.name == "d2t") or tensor.type == "BOOL":
            raise WrongType(path=path, tensor=name, type=tensor.type)
        chosen.append((wanted, tensor))
    return chosen


def _type(wanted: Wanted, tensor: StoredTensor) -> GgmlType:
    """Vectors are F32, as the library's kernels want them; matrices stay as they are."""
    if wanted.name == "d2t":
        return GgmlType.I64
    return _MATRICES[tensor.type] if len(tensor.shape) > 1 else GgmlType.F32


def _values(wanted: Wanted, tensor: StoredTensor, target: Target | None, path: str) -> NDArray[Any]:
    values = tensor.read()
    if wanted.name == "d2t":
        return _token_ids(tensor, values, target.vocab if target else 0, path)
    single = values
    if tensor.type == "BF16":
        single = (values.astype(np.uint32) << 16).view(np.float32)
    if not np.isfinite(single).all():
        raise NotFinite(path=path, tensor=tensor.name)
    if len(tensor.shape) == 1:
        return single.astype(np.float32)
    if wanted.heads:
        rows, columns = values.shape
        halves = values.reshape(wanted.heads, 2, rows // wanted.heads // 2, columns)
        values = halves.swapaxes(1, 2).reshape(rows, columns)
    return np.ascontiguousarray(values)


def _token_ids(
    tensor: StoredTensor, offsets: NDArray[Any], vocab: int, path: str
) -> NDArray[np.int64]:
    """The target's id of each drafted token. Checkpoints store how far it is from its own."""
    bad = BadTokens(path=path, tensor=tensor.name, vocab=vocab)
    if offsets.size and (abs(int(offsets.min())) > vocab or abs(int(offsets.max())) > vocab):
        raise bad
    ids = offsets.astype(np.int64) + np.arange(offsets.size, dtype=np.int64)
    if (ids < 0).any() or (ids >= vocab).any() or np.unique(ids).size != ids.size:
        raise bad
    return ids


def _metadata(layout: Layout, checkpoint: Path, target: Target | None) -> dict[str, MetadataValue]:
    settings = dict(layout.settings)
    mask = settings.pop("mask_token_id", None)
    metadata: dict[str, MetadataValue] = {
        "general.architecture": layout.method.value,
        "general.type": "draft",
        "general.name": checkpoint.stem if checkpoint.is_file() else checkpoint.absolute().name,
        METHOD_KEY: layout.method.value,
        TOOL_KEY: f"twofold {importlib.metadata.version('twofold')}",
        **{f"{layout.method}.{key}": value for key, value in settings.items()},
    }
    if target is None:
        return metadata
    name = target.model.metadata.get("general.name")
    metadata[TARGET_NAME_KEY] = name if isinstance(name, str) and name else target.path.stem
    metadata[TARGET_HASH_KEY] = decoder_hash(target.model)
    if layout.method.carries_tokens:
        for key, value in target.model.metadata.items():
            if key.startswith(TOKENS) and key != _TEMPLATE:
                metadata[key] = _plain(value)
    if mask is not None:
        metadata["tokenizer.ggml.mask_token_id"] = mask
    return metadata


def _plain(value: Any) -> MetadataValue:
    """A value of the target's in the form that it is written in again."""
    if isinstance(value, GgufArray):
        return list(value.values)  # pyright: ignore[reportReturnType]
    if isinstance(value, float) and not math.isfinite(value):
        return 0.0
    return value
