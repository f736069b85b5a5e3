"""The planner against the published figures for Qwen3.8-27B on a DGX Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.api.hardware import Profile
from engine.api.plan import Plan
from engine.assets import asset
from engine.planner.facts import assumed_prefiller
from engine.planner.plan import make_plan
from engine.planner.request import PlanRequest
from engine.planner.times import PASS_TOKENS
from tests.support.planning import card, decoder

# Seconds to the first token: arXiv 2609.26333.
PUBLISHED = {
    "decoder": {128: 0.17, 1024: 1.17, 2048: 2.41, 4096: 5.24, 8192: 12.27, 16384: 25.9,
                32768: 60.5},
    "odp": {128: 3.04, 1024: 3.22, 2048: 3.31, 4096: 3.80, 8192: 6.90, 16384: 14.8, 32768: 38.6},
}  # fmt: skip


SPARK = Profile.model_validate_json(Path(asset("profiles/dgx_spark.json")).read_bytes())
MODEL = decoder("qwen35", "27b", "IQ1_S")


@pytest.fixture(scope="module")
def streamed() -> Plan:
    """As they ran it: every block from the disk, slots inside the decoder."""
    request = PlanRequest(mode="odp", context=32_768, device_blocks=0)
    return make_plan(SPARK, MODEL, assumed_prefiller(MODEL), request)


def test_the_profiles_rates_are_derived_from_three_of_the_times() -> None:
    """Of the fourteen times three are used, and what the paper says of its transformer stack:
    streaming takes 29 times as long as resident weights at 128 tokens. The rest is predicted."""
    prefiller = assumed_prefiller(MODEL)
    operations = 2 * sum(block.linear_weights for block in MODEL.blocks)
    reading = prefiller.nbytes / 5.5e9
    token = PUBLISHED["decoder"][128] / (128 + PASS_TOKENS)
    pairs = PUBLISHED["decoder"][32_768] - token * (32_768 + 4 * PASS_TOKENS)  # four passes
    rates = SPARK.rates
    assert rates.products_tflops["default"] == pytest.approx(operations / token / 1e12, rel=0.01)
    # 16 attention blocks with 24 heads of 256 values; two operations a value and pair, both ways.
    attention = 2 * 16 * 24 * 256 * 32_768**2 / pairs / 1e12
    assert rates.attention_tflops == pytest.approx(attention, rel=0.01)
    resident = reading / 29 / (128 + PASS_TOKENS)
    assert rates.products_tflops["NVFP4"] == pytest.approx(operations / resident / 1e12, rel=0.01)
    first = max(prefiller.block_bytes) / 5.5e9
    fixed = PUBLISHED["odp"][128] - reading - first
    assert rates.fixed_s == {"decoder": 0, "resident": 0, "odp": pytest.approx(fixed, rel=0.01)}


@pytest.mark.parametrize("path", ["decoder", "odp"])
def test_every_published_time_is_predicted_within_15_percent(streamed: Plan, path: str) -> None:
    forecast = next(found for found in streamed.forecasts if found.path == path)
    for tokens, seconds in PUBLISHED[path].items():
        assert forecast.at(tokens) == pytest.approx(seconds, rel=0.15), tokens


def test_the_crossover_is_between_2k_and_4k(streamed: Plan) -> None:
    assert streamed.crossover is not None
    assert 2048 <= streamed.crossover <= 4096


def test_streaming_takes_no_memory_of_its_own(streamed: Plan) -> None:
    assert streamed.carve_out
    assert streamed.lent_bytes == streamed.slots * streamed.slot_bytes > 0
    assert {item.kind for item in streamed.memory}.isdisjoint({"slots", "resident_blocks"})


@pytest.mark.parametrize("gib", [24, 32])
def test_mixed_tiers_beat_pure_streaming_at_least_twofold(gib: int) -> None:
    model = decoder("qwen35", "27b", "IQ2_XXS")
    prefiller = assumed_prefiller(model)
    machine = card(gib, used=1.0)
    mixed = make_plan(machine, model, prefiller, PlanRequest(context=32_768))
    pure = make_plan(
        machine, model, prefiller,
        PlanRequest(context=32_768, mode="odp", device_blocks=0, host_blocks=0),
    )  # fmt: skip
    ours, theirs = mixed.forecast(mixed.mode), pure.forecast("odp")
    assert ours is not None
    assert theirs is not None
    assert mixed.fits
    assert ours.at(2048) <= theirs.at(2048) / 2


def test_without_spare_host_memory_a_24_gib_card_still_keeps_most_blocks() -> None:
    model = decoder("qwen35", "27b", "IQ2_XXS")
    request = PlanRequest(context=32_768, host_blocks=0)
    machine = card(24, used=2.0, rates=card(24).rates.model_copy(update={"transfer_gbps": 12}))
    plan = make_plan(machine, model, assumed_prefiller(model), request)
    assert plan.mode == "odp"
    assert plan.tier_count("host") == 0
    assert 40 < plan.tier_count("device") < 64
    pure = make_plan(
        machine, model, assumed_prefiller(model),
        PlanRequest(context=32_768, mode="odp", device_blocks=0, host_blocks=0),
    )  # fmt: skip
    ours, theirs = plan.forecast("odp"), pure.forecast("odp")
    assert ours is not None
    assert theirs is not None
    assert ours.at(2048) <= theirs.at(2048) / 2
