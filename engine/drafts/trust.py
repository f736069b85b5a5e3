"""Opens a drafter for loading: validated, and known to fit its target."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from engine.drafts.errors import BadTokens, NotRun
from engine.drafts.layouts import MAX_WIDTH, Method
from engine.drafts.pairing import Draft, open_draft, require_draft, require_model_drafter
from engine.gguf.architectures import Expected, Role, read_shape
from engine.gguf.keys import Keys
from engine.gguf.reader import TensorInfo
from engine.gguf.splits import GgufModel, open_model
from engine.gguf.validate import check_tensors, validated_model
from engine.runtime.trust import trusted_model

_MAPPING = "d2t"


def trusted_drafter(path: Path, target: GgufModel) -> GgufModel:
    """The drafter at `path`, which the library may load beside `target`: a smaller model of the
    same tokens, or an EAGLE-3 head. Raises a GgufError, PairingRefused or NotRun."""
    name = open_model(path).metadata.get("general.architecture")
    if name not in [method.value for method in Method]:
        model = trusted_model(path)
        require_model_drafter(model, target)
        return model
    draft = open_draft(path)
    if draft.method is not Method.EAGLE3:
        raise NotRun(path=str(path), method=draft.method.shown)
    require_draft(draft, target)
    model = validated_model(path)
    check_tensors(model, _eagle3_tensors(draft, target))
    _check_mapping(draft)
    return model


def _eagle3_tensors(draft: Draft, target: GgufModel) -> dict[str, Expected]:
    """What the library reads (models/eagle3.cpp). Embeddings and head may be the target's, if
    they have the drafter's width."""
    keys = Keys(draft.model, f"{draft.method}.")
    keys.integer("block_count", 1, 1)
    shape = read_shape(keys, draft.vocab)
    width, features = shape.width, len(draft.taps) * draft.width
    borrows = width == Keys(target, f"{target.metadata['general.architecture']}.").integer(
        "embedding_length", 1, MAX_WIDTH
    )
    mapping = draft.model.by_name.get(_MAPPING)
    drafted = mapping.shape[0] if mapping is not None else draft.vocab

    def linear(columns: int, rows: int, required: bool = True) -> Expected:
        return Expected((columns, rows), Role.LINEAR, required)

    def small(size: int, required: bool = True) -> Expected:
        return Expected((size,), Role.SMALL, required)

    expected = {
        "fc.weight": linear(features, width),
        "token_embd.weight": linear(width, draft.vocab, not borrows),
        "output.weight": linear(width, drafted, not borrows or mapping is not None),
        "output_norm.weight": small(width),
        _MAPPING: Expected((drafted,), Role.INDEX, False),
        "blk.0.attn_norm.weight": small(width),
        "blk.0.attn_norm_2.weight": small(width),
        "blk.0.attn_q.weight": linear(2 * width, shape.q_width),
        "blk.0.attn_k.weight": linear(2 * width, shape.kv_width),
        "blk.0.attn_v.weight": linear(2 * width, shape.kv_width),
        "blk.0.attn_output.weight": linear(shape.q_width, width),
        "blk.0.ffn_norm.weight": small(width),
        "blk.0.ffn_gate.weight": linear(width, shape.ffn),
        "blk.0.ffn_up.weight": linear(width, shape.ffn),
        "blk.0.ffn_down.weight": linear(shape.ffn, width),
        "blk.0.rope_freqs.weight": small(shape.rope_width // 2, False),
    }
    if draft.model.metadata.get(f"{draft.method}.norm_before_fc", False):
        expected["enc.output_norm.weight"] = small(features)
    return expected


def _check_mapping(draft: Draft) -> None:
    """Raises BadTokens unless it names tokens of the target, each of them once: the library
    writes where it says."""
    mapping = draft.model.by_name.get(_MAPPING)
    if mapping is None:
        return
    ids = _values(mapping)
    inside = bool(((ids >= 0) & (ids < draft.vocab)).all())
    if not inside or len(np.unique(ids)) != len(ids):
        raise BadTokens(path=str(draft.path), tensor=_MAPPING, vocab=draft.vocab)


def _values(tensor: TensorInfo) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    count = tensor.shape[0]
    return np.fromfile(tensor.path, np.dtype("<i8"), count, offset=tensor.absolute_offset)
