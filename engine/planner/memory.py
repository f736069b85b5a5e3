"""Bytes of everything that a loaded model holds, by formula, or as the library itself counts."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from engine.api.plan import KvType
from engine.planner.facts import BlockFacts, ModelFacts

GIB = 1 << 30
# Less than this much left free ends in "out of memory" when other programs move.
MARGIN = 2 * GIB
# On small memories the margin is a share instead.
MARGIN_SHARE = 0.1
# The process without a model, and the buffers that disk reads go through on their way to a GPU.
PROGRAM_BYTES = 256 << 20
STAGING_BYTES = 128 << 20

# Bytes of one cached value (llama.cpp: ggml's block sizes).
KV_BYTES: dict[KvType, float] = {
    "f32": 4,
    "f16": 2,
    "bf16": 2,
    "q8_0": 34 / 32,
    "q5_0": 22 / 32,
    "q4_0": 18 / 32,
}
# One pass verifies as many drafted tokens, and its own next one (native: max_draft).
LOGIT_ROWS = 16
_CACHE_STEP = 256  # the library rounds a context up to a multiple of this


class MeasuredMemory(BaseModel):
    """What the library answered when asked without allocating, for one context and cache type:
    bytes of the cache with recurrent states, and of compute buffers as a line over the width of
    a pass in tokens."""

    model_config = ConfigDict(frozen=True)

    context: int
    kv_type: KvType
    context_bytes: int
    compute_base: float
    compute_per_token: float


def margin(free: int, total: int) -> int:
    """Bytes to leave free."""
    return min(MARGIN, round(total * MARGIN_SHARE), free // 4)


def cache_tokens(context: int) -> int:
    return -(-context // _CACHE_STEP) * _CACHE_STEP


def block_cache_bytes(block: BlockFacts, context: int, kv_type: KvType, micro_batch: int) -> int:
    """The cache of one block; a sliding window also holds the pass that moves it."""
    tokens = cache_tokens(context)
    if block.window is not None:
        tokens = min(tokens, cache_tokens(block.window + micro_batch))
    return round(block.kv_values * tokens * KV_BYTES[kv_type])


def compute_bytes(
    model: ModelFacts, context: int, micro_batch: int, measured: MeasuredMemory | None
) -> int:
    """Buffers of one pass. Without a measurement: activations that live at once, the attention's
    mask in 16 bits, and a row of logits; or in narrow passes the logits of all tokens that are
    verified at once. Within 10% of the library for the shapes tested."""
    if measured is not None:
        return round(measured.compute_base + measured.compute_per_token * micro_batch)
    per_token = 4 * (2 * model.ffn + 7 * model.width) + 2 * cache_tokens(context)
    logits = LOGIT_ROWS * (4 * model.vocab + 8 * model.width) + 4 * model.width * micro_batch
    return max(per_token * micro_batch + 4 * model.vocab, logits)
