"""The router on a real pair: forecasts from what is measured, corrected by what runs take."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.gguf.splits import GgufModel, open_model
from engine.kernels.check import multiplier
from engine.planner.times import PASS_TOKENS
from engine.prefiller.build import build_prefiller
from engine.prefiller.formats import Prefiller, open_prefiller
from engine.probe.products import ProductRates
from engine.runtime import router as module
from engine.runtime.gpu_layers import DeviceRoom
from engine.runtime.loaded_model import LoadedModel
from engine.runtime.rate_store import RateStore
from engine.runtime.router import Router
from engine.runtime.routing import Route
from engine.runtime.settings import LoadSettings
from tests.support.tiny_models import write_tiny

SETTINGS = LoadSettings(threads=1, compute_budget=64 << 20)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[GgufModel, Prefiller]:
    path = write_tiny(tmp_path / "d-Q8_0.gguf", "llama")
    return open_model(path), open_prefiller(build_prefiller(path, tmp_path / "p.gguf").path)


@pytest.fixture
def speeds(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """What products are found to reach; changed by tests before the first prompt."""
    found = {"Q8_0": 1e-3, "NVFP4": 1e-2}
    calls: list[list[str]] = []

    def measured(types: list[str], *, threads: int) -> ProductRates:
        assert threads == 1
        calls.append(types)
        found["calls"] = float(len(calls))
        return ProductRates({name: found[name] for name in types}, {})

    monkeypatch.setattr(module, "measure_products", measured)
    return found


def make(decoder: GgufModel, store: RateStore | None = None) -> Router:
    return Router(
        decoder, SETTINGS, context=8192, micro_batch=512, min_prefill_tokens=32, store=store
    )


def choose(router: Router, prefiller: Prefiller | None, tokens: int = 4000) -> Route:
    attached = 0 if prefiller else None
    return router.choose("auto", tokens, prefiller=prefiller, attached=attached, policy="fastest")


def test_the_faster_product_is_taken(
    pair: tuple[GgufModel, Prefiller], speeds: dict[str, float]
) -> None:
    decoder, prefiller = pair
    assert choose(make(decoder), prefiller).path != "decoder"
    speeds["NVFP4"] = 1e-4
    assert choose(make(decoder), prefiller).path == "decoder"


def test_a_measured_speed_is_kept_and_not_measured_again(
    pair: tuple[GgufModel, Prefiller], speeds: dict[str, float], tmp_path: Path
) -> None:
    decoder, prefiller = pair
    choose(make(decoder, RateStore(tmp_path / "data")), prefiller)
    choose(make(decoder, RateStore(tmp_path / "data")), prefiller)
    assert speeds["calls"] == 1


def test_what_one_kernel_or_variant_taught_is_not_used_by_another(
    pair: tuple[GgufModel, Prefiller],
    speeds: dict[str, float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decoder, prefiller = pair
    router = make(decoder, RateStore(tmp_path / "data"))
    choose(router, prefiller)
    for _ in range(2):
        router.learn("odp", 0, 4000, 0, 1000.0, prefiller)
        router.learn("resident", router.blocks, 4000, 0, 1000.0, prefiller)
    assert choose(make(decoder, RateStore(tmp_path / "data")), prefiller).path == "decoder"
    monkeypatch.setattr(module, "multiplier", lambda: "sse42/scalar")
    assert choose(make(decoder, RateStore(tmp_path / "data")), prefiller).path != "decoder"
    assert speeds["calls"] == 2


def test_runs_teach_that_a_path_is_slower_than_predicted(
    pair: tuple[GgufModel, Prefiller], speeds: dict[str, float], tmp_path: Path
) -> None:
    assert speeds
    decoder, prefiller = pair
    router = make(decoder, RateStore(tmp_path / "data"))
    first = choose(router, prefiller)
    assert first.path != "decoder"
    for _ in range(2):
        router.learn("odp", 0, 4000, 0, 1000.0, prefiller)
        router.learn("resident", router.blocks, 4000, 0, 1000.0, prefiller)
    assert choose(router, prefiller).path == "decoder"
    # And the next load knows.
    assert choose(make(decoder, RateStore(tmp_path / "data")), prefiller).path == "decoder"


def test_blocks_are_loaded_to_stay_once_streaming_has_cost_as_much(
    tmp_path: Path, speeds: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Streaming is computing meanwhile, loading is waiting: it pays after some prompts."""
    path = write_tiny(tmp_path / "d.gguf", "llama", weight_type="IQ2_XXS", width=256, ffn=512)
    prefiller = open_prefiller(build_prefiller(path, tmp_path / "p.gguf").path)
    monkeypatch.setattr(module, "measure_disk", lambda *_args: SimpleNamespace(gbps=1e-3))
    read_s = prefiller.nbytes / 1e6
    speeds["IQ2_XXS"] = speeds["Q6_K"] = 1e-3
    # A prompt's products take as long as reading the prefiller.
    weights = sum(math.prod(tensor.shape) for tensor in prefiller.tensors)
    speeds["NVFP4"] = 2e-12 * weights * (400 + PASS_TOKENS) / read_s
    router = make(open_model(path))
    routes: list[Route] = []
    for _ in range(12):
        attached = routes[-1].kept if routes else None
        routes.append(router.choose("auto", 400, prefiller=prefiller, attached=attached))
    paths = [route.path for route in routes]
    streamed = paths.count("odp")
    assert 1 < streamed < 10
    assert paths == ["odp"] * streamed + ["resident"] * (12 - streamed)
    seconds = [route.expected_s or 0.0 for route in routes]
    lost = streamed * (seconds[0] - seconds[-1])
    assert lost == pytest.approx(read_s, abs=seconds[0])
    # The loading is part of what its prompt takes, and of no other.
    assert seconds[streamed] == pytest.approx(read_s + seconds[-1], rel=0.01)


@pytest.mark.parametrize(
    ("near_blocks", "device_blocks", "kept"),
    [(4, 4, 4), (4, 2, 2), (4, 0, 0), (2, 1, 3)],
)
def test_a_devices_free_memory_says_how_many_of_its_blocks_stay(
    tmp_path: Path,
    speeds: dict[str, float],
    monkeypatch: pytest.MonkeyPatch,
    near_blocks: int,
    device_blocks: int,
    kept: int,
) -> None:
    """The host has room for all; the blocks whose decoder it computes live there."""
    path = write_tiny(tmp_path / "d.gguf", "llama", weight_type="IQ2_XXS", width=256, ffn=512)
    prefiller = open_prefiller(build_prefiller(path, tmp_path / "p.gguf").path)
    monkeypatch.setattr(module, "measure_disk", lambda *_args: SimpleNamespace(gbps=1e-3))
    speeds["IQ2_XXS"] = speeds["Q6_K"] = speeds["NVFP4"] = 1e-1
    (size,) = {
        sum(tensor.nbytes for tensor in prefiller.tensors if tensor.block == block)
        for block in range(4)
    }
    rooms = [DeviceRoom("GPU0", device_blocks * size, 0)]
    monkeypatch.setattr(module, "device_rooms", lambda: rooms)
    router = Router(
        open_model(path), SETTINGS, context=8192, micro_batch=512, min_prefill_tokens=32,
        near_blocks=near_blocks,
    )  # fmt: skip
    attached = 0
    for _ in range(20):
        found = router.choose("auto", 400, prefiller=prefiller, attached=attached)
        attached = found.kept
    assert attached == kept


def test_blocks_that_are_in_memory_stay_whatever_one_slow_run_says(
    pair: tuple[GgufModel, Prefiller], speeds: dict[str, float]
) -> None:
    speeds["Q8_0"] = 1e-5
    decoder, prefiller = pair
    router = make(decoder)
    for _ in range(2):
        router.learn("resident", router.blocks, 4000, 0, 20.0, prefiller)
    found = router.choose("auto", 4000, prefiller=prefiller, attached=router.blocks)
    assert (found.path, found.kept) == ("resident", router.blocks)


def test_mixed_tiers_learn_apart_from_streaming(
    pair: tuple[GgufModel, Prefiller], speeds: dict[str, float], tmp_path: Path
) -> None:
    assert speeds
    decoder, prefiller = pair
    store = RateStore(tmp_path / "data")
    router = make(decoder, store)
    choose(router, prefiller)
    for _ in range(2):
        router.learn("odp", 2, 4000, 0, 1000.0, prefiller)
    assert choose(router, prefiller).path != "decoder"
    assert sorted(len(pair.samples) for pair in store.learned.pairs.values()) == [1]
    (key,) = store.learned.pairs
    assert key.endswith(" 4/8")  # two of the four blocks


def test_nothing_is_measured_without_need(
    pair: tuple[GgufModel, Prefiller], speeds: dict[str, float]
) -> None:
    decoder, prefiller = pair
    router = make(decoder)
    assert choose(router, None).path == "decoder"
    assert choose(router, prefiller, tokens=8).path == "decoder"
    router.choose("odp", 4000, prefiller=prefiller, attached=None)
    assert "calls" not in speeds


def test_a_loaded_model_routes_and_learns(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "d-Q8_0.gguf", "llama")
    prefiller = build_prefiller(path, tmp_path / "p.gguf").path
    store = RateStore(tmp_path / "data")
    model = LoadedModel(path, prefiller=prefiller, settings=SETTINGS, rates=store)
    try:
        tokens = model.tokenize("a long text " * 20, add_special=False, parse_special=False)
        for setting in ("auto", "odp", "decoder"):
            model.keep(0)
            report = model.prefill(tokens, path=setting, on_progress=lambda _progress: None)
            assert report.reason.sentence
            assert report.path == setting or setting == "auto"
    finally:
        model.close()
    (learned,) = store.learned.pairs.values()
    assert {"odp", "decoder"} <= set(learned.samples)
    assert store.learned.products[f"CPU {multiplier()} 1"].keys() == {"Q8_0", "NVFP4"}
