"""A smaller way to load a model that a device's memory was too small for, by the exact account."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from engine.errors import TwofoldError
from engine.runtime.gpu_layers import Account, DeviceRoom, fitting_layers

_NARROWEST = 128
_SHORTEST_SHARE = 4  # a context of less than a quarter is another use of the model


class DeviceMemoryShort(TwofoldError):
    """A device had no room for what a load wanted there; `device`, `wanted`, `free` and `holders`
    tell of it. `layers`, `context` and `micro_batch` would fit."""

    code = "device.memory"


@dataclass(frozen=True, slots=True)
class Load:
    """What a load's memory depends on: last layers on devices as the library counts them, tokens
    of context, tokens a pass."""

    layers: int
    context: int
    micro_batch: int


def smaller_load(
    failed: Load,
    blocks: int,
    account_of: Callable[[int, int], Account],
    room: DeviceRoom,
    wanted: int,
) -> Load:
    """The first of these that fits: narrower passes, a shorter context, fewer layers.

    `account_of` gives the account for a context and a width. `wanted` bytes could not be had on
    the device of `room`, whatever it says is free: no more is planned than the rest of that load.
    """
    taken = account_of(failed.context, failed.micro_batch)(failed.layers).get(room.name, 0)
    bound = DeviceRoom(room.name, max(0, min(room.usable, taken - wanted)), 0)
    for load in _narrower(failed):
        need = account_of(load.context, load.micro_batch)(load.layers).get(room.name, 0)
        if need <= bound.usable:
            return load
    account = account_of(failed.context, failed.micro_batch)
    return Load(fitting_layers(blocks, account, [bound]), failed.context, failed.micro_batch)


def _narrower(load: Load) -> Iterator[Load]:
    """With all of its layers: passes half as wide and so on, then a context half as long."""
    width = load.micro_batch
    while width > _NARROWEST:
        width = max(_NARROWEST, width // 2)
        yield Load(load.layers, load.context, width)
    context = load.context
    while context // 2 >= load.context // _SHORTEST_SHARE:
        context //= 2
        yield Load(load.layers, context, min(width, context))
