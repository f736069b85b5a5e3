"""Which weights a prefiller replaces: the linear layers of a block, by tensor name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

# The weights of a block for which the library has an NVFP4 scale slot, in the order in which a
# prefiller stores them. Experts are left out (mixture-of-experts decoders are refused), and so
# are ssm_alpha and ssm_beta: per-head gates of the recurrence, which stay the decoder's.
LINEARS = (
    "attn_q",
    "attn_k",
    "attn_v",
    "attn_qkv",
    "attn_gate",
    "attn_output",
    "ssm_in",
    "ssm_out",
    "ffn_gate",
    "ffn_up",
    "ffn_down",
)

# Layers that kernels fuse read the same input, and share one tensor scale.
SHARED_SCALES = (("attn_q", "attn_k", "attn_v"), ("ffn_gate", "ffn_up"))

NVFP4_BLOCK = 64  # weights; a row must be a whole number of them

_NAME = re.compile(r"blk\.(0|[1-9][0-9]{0,3})\.([a-z0-9_]+)\.weight")
_POSITION = {linear: position for position, linear in enumerate(LINEARS)}


class BlockLinear(NamedTuple):
    """A linear weight's place: its block and which of LINEARS it is."""

    block: int
    linear: str

    @property
    def name(self) -> str:
        return f"blk.{self.block}.{self.linear}.weight"

    @property
    def position(self) -> tuple[int, int]:
        """Sorts tensors into a prefiller's order."""
        return self.block, _POSITION[self.linear]


def block_linear(name: str) -> BlockLinear | None:
    """The place of the tensor `name`, or None if it is not a block's linear weight."""
    match = _NAME.fullmatch(name)
    if match is None or match[2] not in _POSITION:
        return None
    return BlockLinear(int(match[1]), match[2])


def scale_groups(places: Iterable[BlockLinear]) -> list[list[BlockLinear]]:
    """`places` in a prefiller's order, those that share a tensor scale together."""
    leader = {linear: shared[0] for shared in SHARED_SCALES for linear in shared}
    groups: dict[tuple[int, str], list[BlockLinear]] = {}
    for place in sorted(places, key=lambda place: place.position):
        key = (place.block, leader.get(place.linear, place.linear))
        groups.setdefault(key, []).append(place)
    return list(groups.values())
