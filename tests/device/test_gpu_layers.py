"""Without being told, a model takes as many layers to the device as its free memory holds."""

from __future__ import annotations

import pytest

from engine.gguf.splits import open_model
from engine.runtime import loaded_model
from engine.runtime.gpu_layers import ALL_LAYERS, DeviceRoom, device_account, device_rooms
from engine.runtime.loaded_model import LoadedModel
from engine.runtime.settings import LoadSettings
from tests.support.sessions import MakePair

SETTINGS = LoadSettings(context=512, micro_batch=64, threads=1)


def test_the_device_tells_its_memory(device_name: str) -> None:
    (room,) = [room for room in device_rooms() if room.name == device_name]
    assert 0 < room.usable < room.free <= room.total


@pytest.mark.parametrize("arch", ["llama", "qwen35"])
@pytest.mark.parametrize("layers", [ALL_LAYERS, 3, 1, 0])
def test_the_layers_are_those_whose_account_fits(
    pair_of: MakePair,
    device_name: str,
    monkeypatch: pytest.MonkeyPatch,
    arch: str,
    layers: int,
) -> None:
    pair = pair_of(arch)
    room = DeviceRoom(device_name, 0, 0)
    account = device_account(open_model(pair.decoder), 512, 64, [room])
    # The last byte counts: with one less, the next smaller number is taken.
    free = account(layers)[device_name] if layers else account(1)[device_name] - 1
    small = [DeviceRoom(device_name, free, 0)]
    monkeypatch.setattr(loaded_model, "device_rooms", lambda: small)
    model = LoadedModel(pair.decoder, settings=SETTINGS)
    try:
        count = {"llama": 4, "qwen35": 8}[arch]
        blocks = count if layers == ALL_LAYERS else max(0, layers - 1)
        assert model.device_blocks == blocks
        assert sum(model.device_bytes.values()) == (free if layers else 0)
        tokens = model.tokenize("word " * 20, add_special=False, parse_special=False)
        model.prefill(tokens, path="decoder", on_progress=lambda _: None)
        assert len(model.cached_tokens) == len(tokens)
    finally:
        model.close()
