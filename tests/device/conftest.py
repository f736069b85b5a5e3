"""The device that this run is about: TWOFOLD_TEST_DEVICE is "rpc" or "vulkan".

These tests run in processes of their own, since a backend that was opened stays:
`./twofold test --device`, or TWOFOLD_TEST_DEVICE=rpc python -m pytest tests/device.
"""

from __future__ import annotations

import os

import pytest

from tests.support.devices import register
from tests.support.sessions import MakePair, pairs_in

KIND = os.environ.get("TWOFOLD_TEST_DEVICE")
collect_ignore_glob = [] if KIND else ["test_*.py"]


@pytest.fixture(scope="session")
def device_name() -> str:
    assert KIND is not None
    return register(KIND)


@pytest.fixture(scope="session")
def pair_of(tmp_path_factory: pytest.TempPathFactory) -> MakePair:
    return pairs_in(tmp_path_factory)
