"""One way to lay out a decoder and its prefiller in a machine's memory, and what it costs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

from engine.api.plan import KvType, MemoryItem, MemoryKind, PathCost, Pool, Tier
from engine.api.turn import Path
from engine.planner.facts import ModelFacts, PrefillerFacts
from engine.planner.machine import Machine, Room
from engine.planner.memory import (
    PROGRAM_BYTES,
    STAGING_BYTES,
    MeasuredMemory,
    block_cache_bytes,
    compute_bytes,
)
from engine.planner.rates import CPU, PREFILL_TYPE

# Memory that is pinned cannot be given to anything else, so the host keeps this share of it.
_PINNED_SHARE = 0.5
_GOLDEN = 0.6180339887498949


def spread_order(count: int) -> list[int]:
    """Block numbers in an order whose every beginning is spread evenly over the model, so that
    resident and streamed blocks alternate and the disk never waits for long."""
    return sorted(range(count), key=lambda index: (index * _GOLDEN) % 1.0)


@dataclass(frozen=True)
class Task:
    """What is to be laid out, and for which context."""

    machine: Machine
    model: ModelFacts
    prefiller: PrefillerFacts | None
    context: int
    kv_type: KvType
    slots: int
    carve_out: bool
    measured: MeasuredMemory | None = None

    @cached_property
    def order(self) -> list[int]:
        return spread_order(len(self.model.blocks))

    @cached_property
    def prefix_bytes(self) -> list[int]:
        """Bytes of the prefiller's first 0, 1, 2, ... blocks in `order`."""
        assert self.prefiller is not None
        sizes = self.prefiller.block_bytes
        return _sums(sizes[index] for index in self.order)

    # Bytes of the decoder's first 0, 1, 2, ... blocks.

    @cached_property
    def weight_sums(self) -> list[int]:
        return _sums(block.weight_bytes for block in self.model.blocks)

    @cached_property
    def linear_sums(self) -> list[int]:
        return _sums(block.linear_bytes for block in self.model.blocks)

    @cached_property
    def state_sums(self) -> list[int]:
        return _sums(block.state_bytes for block in self.model.blocks)

    @cached_property
    def _cache_sums(self) -> dict[int, list[int]]:
        return {}

    def cache_sums(self, micro_batch: int) -> list[int]:
        """A sliding window's cache depends on the width of a pass."""
        if micro_batch not in self._cache_sums:
            self._cache_sums[micro_batch] = _sums(
                block_cache_bytes(block, self.context, self.kv_type, micro_batch)
                for block in self.model.blocks
            )
        return self._cache_sums[micro_batch]

    @cached_property
    def attention(self) -> tuple[float, float]:
        """Operations for each token and for each square of a token in attention."""
        # Two products of two operations each, for half of all pairs: attention looks back only.
        blocks = self.model.blocks
        full = sum(2 * block.attention_width for block in blocks if not block.window)
        windowed = sum(4 * block.attention_width * block.window for block in blocks if block.window)
        return float(windowed), float(full)

    @cached_property
    def prefill_products(self) -> Mapping[str, int]:
        return {PREFILL_TYPE: sum(block.active_weights for block in self.model.blocks)}


def _sums(values: Iterable[int]) -> list[int]:
    return list(accumulate(values, initial=0))


@dataclass(frozen=True)
class Layout:
    """`near_blocks` of the decoder are in the memory that computes (the last ones, as the library
    counts); `resident` and `hosted` are how many of the prefiller's blocks have those tiers, in
    the task's order. Without `with_prefiller` it is the decoder alone."""

    task: Task
    micro_batch: int
    near_blocks: int
    with_prefiller: bool
    resident: int = 0
    hosted: int = 0

    # --- blocks ----------------------------------------------------------------------------

    @cached_property
    def block_count(self) -> int:
        return len(self.task.model.blocks)

    @property
    def streamed(self) -> int:
        """Blocks that pass through slots."""
        return self.block_count - self.resident if self.with_prefiller else 0

    @property
    def path(self) -> Path:
        if not self.with_prefiller:
            return "decoder"
        return "odp" if self.streamed else "resident"

    @property
    def tiers(self) -> tuple[Tier, ...]:
        if not self.with_prefiller:
            return ()
        tiers: list[Tier] = ["disk"] * self.block_count
        for place, index in enumerate(self.task.order):
            if place < self.resident:
                tiers[index] = "device"
            elif place < self.resident + self.hosted:
                tiers[index] = "host"
        return tuple(tiers)

    @property
    def far_blocks(self) -> int:
        return self.block_count - self.near_blocks

    # --- bytes ------------------------------------------------------------------------------

    @property
    def resident_bytes(self) -> int:
        return self.task.prefix_bytes[self.resident] if self.resident else 0

    @property
    def host_bytes(self) -> int:
        if not self.hosted:
            return 0
        sums = self.task.prefix_bytes
        return sums[self.resident + self.hosted] - sums[self.resident]

    @property
    def disk_bytes(self) -> int:
        if not self.with_prefiller:
            return 0
        return self.task.prefix_bytes[-1] - self.resident_bytes - self.host_bytes

    @property
    def slots(self) -> int:
        return min(self.task.slots, self.streamed)

    @property
    def slot_bytes(self) -> int:
        """One slot: it holds the largest streamed block."""
        if not self.streamed or self.task.prefiller is None:
            return 0
        sizes = self.task.prefiller.block_bytes
        return max(sizes[index] for index in self.task.order[self.resident :])

    @property
    def lent_bytes(self) -> int:
        """Decoder weights under the slots, if they are idle enough to hold them."""
        wanted = self.slots * self.slot_bytes
        sums = self.task.linear_sums
        idle = sums[-1] - sums[self.far_blocks]
        return wanted if self.task.carve_out and wanted <= idle else 0

    @cached_property
    def _amounts(self) -> list[tuple[MemoryKind, str, int]]:
        task, machine = self.task, self.task.machine
        model, name = task.model, machine.name
        host = CPU if machine.host else name
        far = self.far_blocks
        weights, states = task.weight_sums, task.state_sums
        caches = task.cache_sums(self.micro_batch)
        near_weights = weights[-1] - weights[far]
        host_weights = weights[far] + model.embedding_bytes
        # On the CPU a tied head is the embedding itself; elsewhere it is a copy of it.
        if not (model.tied and (machine.device is None or far)):
            if far:
                host_weights += model.head_bytes
            else:
                near_weights += model.head_bytes
        near_cache, host_cache = caches[-1] - caches[far], caches[far]
        near_state, host_state = states[-1] - states[far], states[far]
        if task.measured is not None:
            # The library's own count, shared out as the formula does.
            whole = near_cache + host_cache + near_state + host_state
            share = task.measured.context_bytes / whole if whole else 1.0
            near_cache, host_cache = round(near_cache * share), round(host_cache * share)
            near_state, host_state = round(near_state * share), round(host_state * share)
        compute = compute_bytes(model, task.context, self.micro_batch, task.measured)
        computes_near = self.near_blocks or self.with_prefiller
        slots = 0 if self.lent_bytes else self.slots * self.slot_bytes
        staging = STAGING_BYTES if self.streamed and machine.host else 0
        return [
            ("weights", name, near_weights),
            ("weights", host, host_weights),
            ("kv_cache", name, near_cache),
            ("kv_cache", host, host_cache),
            ("state", name, near_state),
            ("state", host, host_state),
            ("compute", name if computes_near else host, compute),
            ("resident_blocks", name, self.resident_bytes),
            ("host_blocks", host, self.host_bytes),
            ("slots", name, slots),
            ("program", host, PROGRAM_BYTES + staging),
        ]

    @property
    def items(self) -> tuple[MemoryItem, ...]:
        """What the layout takes, by kind and device; nothing of 0 bytes."""
        sums: dict[tuple[MemoryKind, str], int] = {}
        for kind, device, count in self._amounts:
            sums[kind, device] = sums.get((kind, device), 0) + count
        return tuple(
            MemoryItem(kind=kind, device=device, bytes=count)
            for (kind, device), count in sums.items()
            if count
        )

    def planned(self, room: Room) -> int:
        return sum(count for _, device, count in self._amounts if device == room.device)

    @property
    def rooms(self) -> list[Room]:
        machine = self.task.machine
        return [machine.near, *([machine.host] if machine.host else [])]

    @property
    def pools(self) -> tuple[Pool, ...]:
        return tuple(
            Pool(
                device=room.device,
                total=room.total,
                free=room.free,
                replaced=room.replaced,
                margin=room.margin,
                planned=self.planned(room),
            )
            for room in self.rooms
        )

    @property
    def excess(self) -> int:
        """Bytes that are missing; 0 if it fits."""
        return sum(max(0, self.planned(room) - room.usable) for room in self.rooms)

    # --- seconds ----------------------------------------------------------------------------

    @property
    def decode_s(self) -> float:
        """Seconds for each token of an answer, after a prompt of 4096."""
        task, rates = self.task, self.task.machine.rates
        tokens = min(task.context, 4096)
        head, far = task.model.head_bytes, task.weight_sums[self.far_blocks]
        # The head is on the device only if every block is.
        share = (far + head) / (task.weight_sums[-1] + head) if far else 0.0
        cache = task.cache_sums(self.micro_batch)[-1] * tokens / task.context
        cache += task.state_sums[-1]
        near = {name: round(count * (1 - share)) for name, count in task.model.decode_bytes.items()}
        host = {name: round(count * share) for name, count in task.model.decode_bytes.items()}
        near["cache"], host["cache"] = round(cache * (1 - share)), round(cache * share)
        return rates.read_s(near) + rates.read_s(host, host=True)

    @property
    def restore_s(self) -> float:
        """Seconds to put lent decoder weights back, between the first token and the second."""
        return self.lent_bytes / self.task.machine.rates.disk_gbps / 1e9

    @property
    def decoder_cost(self) -> PathCost:
        """Reading with the decoder's own weights; those on the host come anew in each pass."""
        task, rates = self.task, self.task.machine.rates
        far = task.weight_sums[self.far_blocks]
        read = rates.read_s({"": sum(task.model.decode_bytes.values()) - far})
        transfer = far / rates.transfer_gbps / 1e9
        return self._cost("decoder", task.model.products, max(read, transfer))

    @property
    def prefill_cost(self) -> PathCost:
        """Reading with the prefiller as it is laid out."""
        rates = self.task.machine.rates
        near = rates.read_s({"": self.task.prefix_bytes[-1]})
        disk = self.disk_bytes / rates.disk_gbps / 1e9
        transfer = (self.disk_bytes + self.host_bytes) / rates.transfer_gbps / 1e9
        # The first block has to be there before anything computes.
        rate = rates.disk_gbps if self.disk_bytes else rates.transfer_gbps
        first = self.slot_bytes / rate / 1e9
        return self._cost(self.path, self.task.prefill_products, max(near, disk, transfer), first)

    @property
    def autocast_cost(self) -> PathCost:
        """Re-encoding the decoder's weights in each pass, then as with a prefiller."""
        weights = sum(block.linear_weights for block in self.task.model.blocks)
        encode = weights / self.task.machine.rates.encode_gweights / 1e9
        return self._cost("autocast", self.task.prefill_products, encode)

    def _cost(
        self, path: Path, products: Mapping[str, int], pass_s: float, first_s: float = 0.0
    ) -> PathCost:
        task, rates = self.task, self.task.machine.rates
        flop_s = 1e-12 / rates.attention_tflops
        token, square = task.attention
        return PathCost(
            fixed_s=rates.fixed_s(path) + first_s,
            token_s=rates.product_s(products) + token * flop_s,
            token2_s=square * flop_s,
            pass_s=pass_s,
            micro_batch=self.micro_batch,
        )


def filled(layout: Layout, device_blocks: int, host_blocks: int) -> Layout:
    """`layout`, which has none yet, with as many resident and hosted prefiller blocks as there is
    room for, up to the given numbers."""
    near, host = layout.task.machine.near, layout.task.machine.host
    sums, count = layout.task.prefix_bytes, layout.block_count
    if device_blocks >= count:
        # Without a streamed block there are no slots either.
        whole = replace(layout, resident=count)
        if whole.planned(near) <= near.usable:
            return whole
    resident = bisect_right(sums, near.usable - layout.planned(near)) - 1
    found = replace(layout, resident=max(0, min(resident, device_blocks, count - 1)))
    if host is None:
        return found
    room = min(host.usable - found.planned(host), round(host.usable * _PINNED_SHARE))
    hosted = bisect_right(sums, sums[found.resident] + room) - 1 - found.resident
    return replace(found, hosted=max(0, min(hosted, host_blocks, count - found.resident)))
