"""How much of a model the graphics cards' free memory holds, by the library's own account."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from engine.gguf.splits import GgufModel
from engine.native import native
from engine.planner.memory import margin
from engine.probe.memory import KV_TYPES

ALL_LAYERS = -1
# Passes of this width when nothing else is planned or wanted.
USUAL_WIDTH = 512


@dataclass(frozen=True, slots=True)
class DeviceRoom:
    """A device's memory in bytes, as it is now."""

    name: str
    free: int
    total: int

    @property
    def usable(self) -> int:
        return self.free - margin(self.free, self.total)


# Layers -> bytes on each device.
Account = Callable[[int], Mapping[str, int]]


def device_rooms() -> list[DeviceRoom]:
    """The devices other than the CPU that the library can compute on; their order is its own."""
    return [
        DeviceRoom(device.name, device.memory_free, device.memory_total)
        for device in native().list_devices()
        if device.kind in ("gpu", "igpu")
    ]


def device_account(
    model: GgufModel, context: int, width: int, rooms: Sequence[DeviceRoom]
) -> Account:
    """Asks the library in this process, without allocating; the account raises NativeError."""
    paths = [str(file.path) for file in model.files]
    kind = KV_TYPES["f16"]

    def account(layers: int) -> dict[str, int]:
        found = dict.fromkeys((room.name for room in rooms), 0)
        for part in native().estimate_memory(paths, context, width, layers, kind, kind, []):
            # A remote device's buffers are called by its address, too. What is left are the CPU's.
            name = part.buffer.partition("[")[0]
            if name in found:
                found[name] += part.weights + part.context + part.compute
        return found

    return account


def fitting_layers(
    blocks: int, account: Account, rooms: Iterable[DeviceRoom], reserve: int = 0
) -> int:
    """The most of a model's last layers, as the library counts them, that leave each device its
    margin and `reserve` bytes more: ALL_LAYERS, or a number from 0 to `blocks`."""
    usable = {room.name: room.usable - reserve for room in rooms}

    def fits(layers: int) -> bool:
        return all(need <= usable[name] for name, need in account(layers).items() if need)

    if fits(ALL_LAYERS):
        return ALL_LAYERS
    least, most = 0, blocks
    while least < most:
        middle = (least + most + 1) // 2
        if fits(middle):
            least = middle
        else:
            most = middle - 1
    return least


def blocks_on_devices(layers: int, blocks: int) -> int:
    """Of `blocks`, those among so many last layers: the output is the last layer of all."""
    return blocks if layers == ALL_LAYERS else max(0, min(blocks, layers - 1))
