"""The planner's answer: where weights go, the memory that takes, how long prompts will take."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from engine.api.turn import Path

Tier = Literal["device", "host", "disk"]
KvType = Literal["f32", "f16", "bf16", "q8_0", "q5_0", "q4_0"]
MemoryKind = Literal[
    "weights",  # the decoder's
    "kv_cache",
    "state",  # of recurrent blocks
    "compute",  # buffers of one pass
    "resident_blocks",  # of the prefiller, in the memory that computes
    "host_blocks",  # of the prefiller, in pinned host memory
    "slots",  # those that are not carved out of the decoder
    "program",  # the process itself and its staging buffers
]

# Prompt lengths that every plan predicts, in tokens.
PROMPT_LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)


class Data(BaseModel):
    model_config = ConfigDict(frozen=True)


class Remark(Data):
    """A reason or a warning; `data` holds the sentence's facts."""

    code: str
    sentence: str
    data: dict[str, Any] = {}


class MemoryItem(Data):
    """Bytes of one kind on one device ("CPU" is the host)."""

    kind: MemoryKind
    device: str
    bytes: int


class Pool(Data):
    """One memory: `free` is what other programs leave of `total`, plus `replaced` bytes that a
    model about to be replaced gives back. `margin` of it stays free; `planned` is the items' sum.
    """

    device: str
    total: int
    free: int
    replaced: int
    margin: int
    planned: int

    @property
    def fits(self) -> bool:
        return self.planned + self.margin <= self.free


class PathCost(Data):
    """What reading a prompt costs: for passes of `micro_batch` tokens each, the larger of
    `pass_s` (weights that have to come, whatever the width) and the computing, which takes
    `token_s` for a token and `token2_s` for a pair of tokens; and `fixed_s` once.
    """

    fixed_s: float
    token_s: float
    token2_s: float
    pass_s: float
    micro_batch: int


class Forecast(Data):
    """A path's predicted times to the first token in seconds, one for each of PROMPT_LENGTHS.

    `fits`: its memory is there beside the rest of the plan. `measured`: it rests on measured
    rates, not on guesses.
    """

    path: Path
    fits: bool
    measured: bool
    cost: PathCost
    ttft_s: tuple[float, ...]

    def at(self, tokens: int) -> float:
        """The prediction for one of PROMPT_LENGTHS."""
        return self.ttft_s[PROMPT_LENGTHS.index(tokens)]


class Plan(Data):
    """Sizes in bytes, lengths in tokens, times in seconds, `decode_tps` in tokens a second.

    `tiers`: where each block's prefill weights live; empty without a prefiller in the plan.
    `decoder_device_blocks`: blocks of the decoder on the computing device; the rest is on the
    host. `slots` buffers of `slot_bytes` stream the blocks of tiers `host` and `disk`, inside
    `lent_bytes` of the decoder's weights if `carve_out`. `crossover`: the prompt length from
    which on `odp` beats `decoder`; None if it does not. `turn_s`: an average turn, prompts of
    several lengths and an answer of 256 tokens; plans are compared by it.
    """

    decoder: str
    prefiller: str | None
    device: str
    context: int
    kv_type: KvType
    mode: Path
    overridden: bool
    fits: bool
    blocks: int
    tiers: tuple[Tier, ...]
    decoder_device_blocks: int
    slots: int
    slot_bytes: int
    carve_out: bool
    lent_bytes: int
    micro_batch: int
    memory: tuple[MemoryItem, ...]
    pools: tuple[Pool, ...]
    memory_exact: bool
    prompt_tokens: tuple[int, ...] = PROMPT_LENGTHS
    forecasts: tuple[Forecast, ...]
    crossover: int | None
    decode_tps: float
    turn_s: float
    reasons: tuple[Remark, ...]
    warnings: tuple[Remark, ...]

    def forecast(self, path: Path) -> Forecast | None:
        return next((found for found in self.forecasts if found.path == path), None)

    def tier_count(self, tier: Tier) -> int:
        return self.tiers.count(tier)
