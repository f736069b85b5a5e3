"""What would fit after a device's memory was short: the least change that does."""

from __future__ import annotations

import pytest

from engine.runtime.gpu_layers import ALL_LAYERS, Account, DeviceRoom
from engine.runtime.smaller_load import Load, smaller_load

BLOCKS = 8
FAILED = Load(ALL_LAYERS, 4096, 512)


def account_of(context: int, width: int) -> Account:
    """Bytes: 100 for each layer and 1 for every 64 tokens of its context, 1 for a pass's token."""

    def account(layers: int) -> dict[str, int]:
        count = BLOCKS + 1 if layers == ALL_LAYERS else layers
        return {"GPU0": count * (100 + context // 64) + (width if count else 0)}

    return account


WHOLE = account_of(4096, 512)(ALL_LAYERS)["GPU0"]


def found(free: int, wanted: int = 1) -> Load:
    return smaller_load(FAILED, BLOCKS, account_of, DeviceRoom("GPU0", free, 0), wanted)


@pytest.mark.parametrize(
    ("free", "load"),
    [
        (WHOLE - 256, Load(ALL_LAYERS, 4096, 256)),
        (WHOLE - 257, Load(ALL_LAYERS, 4096, 128)),
        (WHOLE - 385, Load(ALL_LAYERS, 2048, 128)),
        (WHOLE - 385 - 9 * 32, Load(ALL_LAYERS, 1024, 128)),
        (WHOLE - 385 - 9 * 48, Load(4, 4096, 512)),
        (0, Load(0, 4096, 512)),
    ],
)
def test_the_least_change_that_fits(free: int, load: Load) -> None:
    assert found(free) == load


def test_what_was_refused_is_not_planned_again_whatever_is_said_to_be_free() -> None:
    assert found(10 * WHOLE, wanted=300) == Load(ALL_LAYERS, 4096, 128)
    load = found(10 * WHOLE, wanted=WHOLE - 200)
    assert account_of(load.context, load.micro_batch)(load.layers)["GPU0"] <= 200
