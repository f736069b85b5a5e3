"""What a plan should come to, worked out a second time from published figures alone.

Nothing here comes from the planner or from a model's header: shapes are those of the models' own
config.json files, bits those of the formats, and every rule is written down as simply as it can
be. Small things are left out (the first streamed block, norms, gates), so the two agree to a few
blocks and a few percent, and not to the last digit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

GIB = 1024**3
BITS = {"IQ1_S": 1.5625, "IQ2_XXS": 2.0625, "IQ3_XXS": 3.0625, "Q4_0": 4.5, "Q4_K": 4.5}
NVFP4_BITS, HEAD_BITS, EMBEDDING_BITS = 4.5, 6.5625, 4.5  # a tied head is its own embedding
CONTEXT = 16_384
PROMPTS, ANSWER = (512, 2048, 8192), 256  # the turn that plans are compared by
WIDTHS = (128, 256, 512, 1024, 2048, 4096, 8192)
START = 16  # narrow products are less efficient: a pass costs as much as so many tokens more


@dataclass(frozen=True)
class Shape:
    """`query` and `cached`: values of all query heads, and of keys and values, in an attention
    block; `state`: bytes of a recurrent block, `gates` of its weights that are never in few bits.
    """

    blocks: int
    width: int
    ffn: int
    vocab: int
    query: int
    cached: int
    weights: int  # linear ones, of all blocks
    attention_blocks: int
    state: int
    gates: int
    tied: bool


def qwen3(blocks: int, width: int, ffn: int, heads: int, *, tied: bool = True) -> Shape:
    """Heads of 128 values, 8 of keys and 8 of values; gate, up and down after them."""
    query, cached = heads * 128, 2 * 8 * 128
    each = 2 * width * query + width * cached + 3 * width * ffn
    return Shape(blocks, width, ffn, 151_936, query, cached, blocks * each, blocks, 0, 0, tied)


def qwen35_27b() -> Shape:
    """16 blocks of attention with gated queries (24 heads of 256, 4 of keys and 4 of values), and
    48 recurrent ones: 10,240 values of queries, keys and values, a gate and an output of 6144."""
    width, ffn = 5120, 17_408
    attention = 3 * width * 24 * 256 + width * 2 * 4 * 256
    recurrent = width * 10_240 + 2 * width * 6144
    weights = 16 * attention + 48 * recurrent + 64 * 3 * width * ffn
    state = 4 * (48 * 128 * 128 + 3 * 10_240)
    gates = 2 * 48 * width * 34 // 32 + 4 * 4 * 10_240  # two in Q8_0, and the convolution
    query, cached = 24 * 256, 2 * 4 * 256
    return Shape(64, width, ffn, 248_320, query, cached, weights, 16, state, gates, False)


SHAPES = {
    "0.6B": qwen3(28, 1024, 3072, 16),
    "1.7B": qwen3(28, 2048, 6144, 16),
    "4B": qwen3(36, 2560, 9728, 32),
    "8B": qwen3(36, 4096, 12_288, 32, tied=False),
    "27B": qwen35_27b(),
}


@dataclass(frozen=True)
class Box:
    """A machine: memories and what is free of them in GiB, rates in GB/s and TFLOP/s.

    `gpu` None: the CPU computes; `one_memory`: the GPU in the host's. `known`: the products'
    rates were measured, `disk_known` the disk's.
    """

    ram: float
    ram_free: float
    gpu: float | None = None
    gpu_free: float = 0.0
    one_memory: bool = False
    products: float = 70
    prefill: float = 90
    attention: float = 30
    memory: float = 700
    host: float = 50
    transfer: float = 22
    disk: float = 5.5
    known: bool = True
    disk_known: bool = True
    once_s: float = 0.02  # what a prompt costs at any length
    odp_s: float = 0.1  # and one that is streamed


@dataclass(frozen=True)
class Model:
    size: str
    type: str
    experts: bool = False

    @property
    def shape(self) -> Shape:
        return SHAPES[self.size]

    def bytes_of_blocks(self) -> float:
        shape = self.shape
        recurrent = shape.blocks - shape.attention_blocks
        return shape.weights * BITS[self.type] / 8 + recurrent * shape.gates

    def bytes_of_head(self) -> float:
        return self.shape.width * self.shape.vocab * HEAD_BITS / 8

    def bytes_of_embedding(self) -> float:
        bits = HEAD_BITS if self.shape.tied else EMBEDDING_BITS
        return self.shape.width * self.shape.vocab * bits / 8

    def bytes_of_prefiller(self) -> float:
        return self.shape.weights * NVFP4_BITS / 8

    def bytes_of_cache(self) -> float:
        shape = self.shape
        keys = shape.attention_blocks * shape.cached * CONTEXT * 2
        return keys + (shape.blocks - shape.attention_blocks) * shape.state

    @property
    def few_bits(self) -> bool:
        return BITS[self.type] < 2.75


@dataclass(frozen=True)
class Layout:
    """`near`: decoder blocks in the memory that computes; the other three, the prefiller's."""

    width: int
    near: int
    resident: int = 0
    hosted: int = 0
    streamed: int = 0

    @property
    def mode(self) -> str:
        if not self.resident + self.hosted + self.streamed:
            return "decoder"
        return "odp" if self.hosted + self.streamed else "resident"


@dataclass(frozen=True)
class Expectation:
    mode: str
    resident: int
    hosted: int
    streamed: int
    near: int
    fits: bool
    turn_s: float


def usable(free: float, total: float) -> float:
    """2 GiB stay free, or a tenth of a small memory, or a quarter of a nearly full one."""
    return (free - min(2, total / 10, free / 4)) * GIB


class Case:
    def __init__(self, box: Box, model: Model) -> None:
        self.box, self.model, self.shape = box, model, model.shape
        self.two_memories = box.gpu is not None and not box.one_memory
        self.host_usable = usable(box.ram_free, box.ram)
        self.near_usable = self.host_usable
        if self.two_memories:
            assert box.gpu is not None
            self.near_usable = usable(box.gpu_free, box.gpu)

    # --- memory ---------------------------------------------------------------------------

    def needs(self, width: int, near: int, *, prefiller: bool) -> tuple[float, float]:
        """Bytes near and on the host, without the prefiller's blocks."""
        shape, model = self.shape, self.model
        share = near / shape.blocks
        of_blocks = model.bytes_of_blocks() + model.bytes_of_cache()
        compute = width * (4 * (2 * shape.ffn + 7 * shape.width) + 2 * CONTEXT) + 4 * shape.vocab
        close = share * of_blocks + (compute if near or prefiller else 0)
        host = (1 - share) * of_blocks + (0 if near or prefiller else compute)
        host += model.bytes_of_embedding() + GIB / 4
        copied = not shape.tied or (self.box.gpu is not None and share == 1)
        if copied and share == 1:
            close += model.bytes_of_head()
        elif copied:
            host += model.bytes_of_head()
        return (close, host) if self.two_memories else (close + host, 0.0)

    def plain(self) -> Iterator[Layout]:
        counts = range(self.shape.blocks + 1) if self.two_memories else (self.shape.blocks,)
        return (Layout(width, near) for width in WIDTHS for near in counts)

    def lacks(self, layout: Layout) -> float:
        close, host = self.needs(layout.width, layout.near, prefiller=False)
        missing = max(0.0, close - self.near_usable)
        return missing + (max(0.0, host - self.host_usable) if self.two_memories else 0)

    def with_prefiller(self) -> Iterator[Layout]:
        """The prefiller's blocks go near while there is room, then to the host (up to half of
        what is usable there, since it is pinned), and the rest stays on the disk."""
        count = self.shape.blocks
        block = self.model.bytes_of_prefiller() / count
        for plain in self.plain():
            close, host = self.needs(plain.width, plain.near, prefiller=True)
            resident = math.floor((self.near_usable - close) / block)
            left = self.host_usable - host
            if resident < 0 or (self.two_memories and left < 0):
                continue
            resident = min(resident, count)
            hosted = 0
            if self.two_memories and resident < count:
                left -= GIB / 8  # buffers between disk and card
                if left < 0:
                    continue
                hosted = min(count - resident, int(min(left, self.host_usable / 2) / block))
            yield Layout(plain.width, plain.near, resident, hosted, count - resident - hosted)

    # --- time -----------------------------------------------------------------------------

    def read_s(self, layout: Layout, tokens: int, *, prefiller: bool) -> float:
        """Each pass takes the longer of its weights' coming and its computing."""
        box, shape, model = self.box, self.shape, self.model
        active = 8 / 128 if model.experts else 1
        blocks = self.model.bytes_of_blocks()
        if prefiller:
            block = model.bytes_of_prefiller() / shape.blocks
            product_s = 2 * shape.weights * active / box.prefill / 1e12
            floor = model.bytes_of_prefiller() / (0.8 * box.memory * 1e9)
            floor = max(floor, layout.streamed * block / (box.disk * 1e9))
            if self.two_memories:
                moved = (layout.streamed + layout.hosted) * block
                floor = max(floor, moved / (box.transfer * 1e9))
            once = box.odp_s if layout.mode == "odp" else box.once_s
        else:
            far = (1 - layout.near / shape.blocks) * blocks
            product_s = 2 * shape.weights * active / box.products / 1e12
            floor = (blocks - far + model.bytes_of_head()) / (0.8 * box.memory * 1e9)
            if self.two_memories:
                floor = max(floor, far / (box.transfer * 1e9))
            once = box.once_s
        # Half of all pairs, two products of two operations each.
        pair_s = 2 * shape.attention_blocks * shape.query / box.attention / 1e12
        # A prompt is cut into passes as even as can be.
        passes = -(-tokens // layout.width)
        ends = [round(tokens * (index + 1) / passes) for index in range(passes)]
        seconds, done = once, 0
        for end in ends:
            compute = (end - done + START) * product_s + (end**2 - done**2) * pair_s
            seconds += max(floor, compute)
            done = end
        return seconds

    def answer_s(self, layout: Layout) -> float:
        """Every weight, the head and 4096 tokens of cache are read for each token."""
        shape, model = self.shape, self.model
        far = 1 - layout.near / shape.blocks
        blocks, head = model.bytes_of_blocks(), model.bytes_of_head()
        keys = shape.attention_blocks * shape.cached * 4096 * 2
        keys += (shape.blocks - shape.attention_blocks) * shape.state
        if model.experts:
            blocks *= 1.0  # the table's mixture reads as many bytes as it has
        slow = (far * blocks + head) if far else 0.0
        share = slow / (blocks + head)
        every = blocks + head + keys
        rate = (1 - share) / self.box.memory + share / self.box.host
        return ANSWER * every * rate / 0.8e9

    def restore_s(self, layout: Layout) -> float:
        """Two slots' worth of decoder weights come back, if as many were idle."""
        blocks = layout.hosted + layout.streamed
        lent = min(2, blocks) * self.model.bytes_of_prefiller() / self.shape.blocks
        idle = self.model.bytes_of_blocks() * layout.near / self.shape.blocks
        return lent / self.box.disk / 1e9 if lent <= idle else 0.0

    def turn_s(self, layout: Layout, *, always: bool) -> float:
        """The geometric mean of a turn's time; `always`: the prefiller reads every prompt."""
        logs = 0.0
        for tokens in PROMPTS:
            seconds = self.read_s(layout, tokens, prefiller=False)
            if layout.mode != "decoder":
                other = self.read_s(layout, tokens, prefiller=True) + self.restore_s(layout)
                seconds = other if always else min(seconds, other)
            logs += math.log(seconds + self.answer_s(layout))
        return math.exp(logs / len(PROMPTS))

    def ever_faster(self, layout: Layout) -> bool:
        def gains(tokens: int) -> bool:
            plain = self.read_s(layout, tokens, prefiller=False)
            return self.read_s(layout, tokens, prefiller=True) < plain

        return any(gains(tokens) for tokens in (*range(128, CONTEXT, 128), CONTEXT))

    # --- the answer -----------------------------------------------------------------------

    def expectation(self) -> Expectation:
        """Better answers first; from three bits up, and only if it was measured, speed."""
        better = self.model.few_bits
        best: Layout | None = None
        if not self.model.experts:
            layouts = list(self.with_prefiller())
            if layouts:
                best = min(layouts, key=lambda one: self.turn_s(one, always=better))
                measured = self.box.known and (best.mode == "resident" or self.box.disk_known)
                if not better and not (measured and self.ever_faster(best)):
                    best = None
        if best is not None:
            return self._told(best, True, self.turn_s(best, always=better))
        fitting = [layout for layout in self.plain() if not self.lacks(layout)]
        if fitting:
            found = min(fitting, key=lambda one: self.turn_s(one, always=False))
        else:
            found = min(self.plain(), key=self.lacks)
        return self._told(found, bool(fitting), self.turn_s(found, always=False))

    def _told(self, found: Layout, fits: bool, turn_s: float) -> Expectation:
        tiers = found.resident, found.hosted, found.streamed
        return Expectation(found.mode, *tiers, found.near, fits, turn_s)
