"""The device that this run is about: TWOFOLD_TEST_DEVICE is "rpc" or "vulkan".

These tests run in processes of their own, since a backend that was opened stays:
`./twofold test --device`, or TWOFOLD_TEST_DEVICE=rpc python -m pytest tests/device.
"""

from __future__ import annotations

import os

import pytest

from tests.support.devices import register
from tests.support.sessions import MakePair, Pair, make_pair

KIND = os.environ.get("TWOFOLD_TEST_DEVICE")
collect_ignore_glob = [] if KIND else ["test_*.py"]


@pytest.fixture(scope="session")
def device_name() -> str:
    assert KIND is not None
    return register(KIND)


@pytest.fixture(scope="session")
def pair_of(tmp_path_factory: pytest.TempPathFactory) -> MakePair:
    made: dict[str, Pair] = {}

    def make(arch: str) -> Pair:
        if arch not in made:
            made[arch] = make_pair(tmp_path_factory.mktemp(arch), arch)
        return made[arch]

    return make
