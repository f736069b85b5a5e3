"""As many layers are on the devices as their free memory holds, by an account of bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.runtime.gpu_layers import (
    ALL_LAYERS,
    Account,
    DeviceRoom,
    blocks_on_devices,
    fitting_layers,
)

BLOCKS = 8
MIB = 1 << 20


def account(layer: int = 100 * MIB, fixed: int = 50 * MIB) -> Account:
    """Each layer takes as much, and any layer at all buffers for computing."""

    def of(layers: int) -> dict[str, int]:
        count = BLOCKS + 1 if layers == ALL_LAYERS else layers
        return {"GPU0": count * layer + fixed if count else 0}

    return of


def room(usable: int, name: str = "GPU0") -> DeviceRoom:
    """A memory whose margin is nothing."""
    found = DeviceRoom(name, usable, 0)
    assert found.usable == usable
    return found


@pytest.mark.parametrize(
    ("usable", "layers"),
    [
        (950, ALL_LAYERS),
        (949, 8),
        (850, 8),
        (849, 7),
        (150, 1),
        (149, 0),
        (0, 0),
    ],
)
def test_as_many_layers_as_fit(usable: int, layers: int) -> None:
    assert fitting_layers(BLOCKS, account(), [room(usable * MIB)]) == layers


def test_what_is_reserved_is_left_free() -> None:
    assert fitting_layers(BLOCKS, account(), [room(950 * MIB)], reserve=101 * MIB) == 7


def test_each_device_needs_room_of_its_own() -> None:
    def two(layers: int) -> dict[str, int]:
        count = BLOCKS + 1 if layers == ALL_LAYERS else layers
        return {"GPU0": count // 2 * MIB, "GPU1": (count - count // 2) * MIB}

    rooms = [room(100 * MIB), room(2 * MIB, "GPU1")]
    assert fitting_layers(BLOCKS, two, rooms) == 4


def test_a_margin_stays_free() -> None:
    crowded = DeviceRoom("GPU0", 24 << 30, 24 << 30)
    assert 0 < crowded.usable < crowded.free


@given(usable=st.integers(0, 2000), more=st.integers(0, 500))
def test_more_memory_never_holds_fewer_layers(usable: int, more: int) -> None:
    def count(mib: int) -> int:
        layers = fitting_layers(BLOCKS, account(), [room(mib * MIB)])
        return BLOCKS + 1 if layers == ALL_LAYERS else layers

    assert count(usable) <= count(usable + more)


@pytest.mark.parametrize(("layers", "blocks"), [(ALL_LAYERS, 8), (9, 8), (3, 2), (1, 0), (0, 0)])
def test_the_output_is_the_last_layer(layers: int, blocks: int) -> None:
    assert blocks_on_devices(layers, BLOCKS) == blocks
