"""What the planner decides, refuses and says, and how it follows the user."""

from __future__ import annotations

import pytest

from engine.api.plan import Plan
from engine.planner.facts import PrefillerFacts, assumed_prefiller
from engine.planner.plan import UnknownDevice, make_plan
from engine.planner.request import PlanRequest
from engine.planner.words import REMARKS
from tests.support.planning import CARD_RATES, GIB, card, decoder, laptop, mixture

IQ2 = decoder("qwen35", "27b", "IQ2_XXS")
Q4 = decoder("qwen35", "27b", "Q4_K")
PREFILLER = assumed_prefiller(IQ2)


def codes(plan: Plan) -> set[str]:
    return {remark.code for remark in (*plan.reasons, *plan.warnings)}


def plan(**wishes: object) -> Plan:
    request = PlanRequest.model_validate({"context": 16_384} | wishes)
    return make_plan(card(24), IQ2, PREFILLER, request)


def test_a_decoder_of_few_bits_is_read_with_its_prefiller_for_better_answers() -> None:
    found = make_plan(card(16), IQ2, PREFILLER, PlanRequest(context=16_384))
    assert found.mode == "odp"
    assert {"plan.best_answers", "plan.mixed_tiers", "plan.slower_than_decoder"} <= codes(found)


def test_the_fastest_policy_leaves_out_a_prefiller_that_saves_no_time() -> None:
    slow = CARD_RATES.model_copy(update={"products_tflops": {"default": 70, "NVFP4": 30}})
    machine = card(24, rates=slow)
    fastest = make_plan(machine, IQ2, PREFILLER, PlanRequest(policy="fastest"))
    assert fastest.mode == "decoder"
    assert "plan.decoder_is_faster" in codes(fastest)
    better = make_plan(machine, IQ2, PREFILLER, PlanRequest(policy="best_answers"))
    assert better.mode == "resident"
    assert "plan.always_slower_than_decoder" in codes(better)


def test_speed_alone_decides_from_three_bits_up() -> None:
    fast = make_plan(card(32), Q4, assumed_prefiller(Q4), PlanRequest())
    assert fast.mode == "resident"
    assert {"plan.no_quality_gain", "plan.always_faster"} <= codes(fast)
    assert "plan.best_answers" not in codes(fast)


def test_a_speed_that_was_never_measured_is_no_reason_to_use_a_prefiller() -> None:
    unmeasured = CARD_RATES.model_copy(update={"products_tflops": {}})
    blackwell = card(32, rates=unmeasured, capability="12.0")
    found = make_plan(blackwell, Q4, assumed_prefiller(Q4), PlanRequest(policy="fastest"))
    assert found.mode == "decoder"
    assert {"plan.unproven_path", "plan.rates_guessed"} <= codes(found)


def test_a_mixture_of_experts_gets_no_prefiller_unless_the_user_insists() -> None:
    experts = mixture(IQ2)
    found = make_plan(card(24), experts, PREFILLER, PlanRequest())
    assert found.mode == "decoder"
    assert "plan.mixture_of_experts" in codes(found)
    forced = make_plan(card(24), experts, PREFILLER, PlanRequest(mode="odp"))
    assert forced.mode == "odp"
    assert "plan.mixture_of_experts" in codes(forced)
    # All experts come for each pass, and few of them compute: what the refusal is about.
    streamed = forced.forecast("odp")
    alone = forced.forecast("decoder")
    assert streamed is not None
    assert alone is not None
    assert streamed.at(2048) > alone.at(2048)


@pytest.mark.parametrize("fits", [True, False])
def test_a_mismatched_pair_is_refused_with_the_reasons(fits: bool) -> None:
    wrong = PREFILLER.model_copy(
        update={"matched": False, "fits": fits, "reasons": ("it is for IQ1_S",)}
    )
    found = make_plan(card(24), IQ2, wrong, PlanRequest())
    assert found.mode == "decoder"
    assert found.prefiller is None
    assert any("it is for IQ1_S" in remark.sentence for remark in found.warnings)
    forced = make_plan(card(24), IQ2, wrong, PlanRequest(force_pairing=True))
    assert forced.mode == ("resident" if fits else "decoder")
    expected = "plan.pairing_forced" if fits else "plan.pairing_impossible"
    assert expected in codes(forced)


def test_without_a_prefiller_the_plan_says_what_one_would_take() -> None:
    found = make_plan(card(24), IQ2, None, PlanRequest())
    assert found.mode == "decoder"
    assert "plan.no_prefiller" in codes(found)
    assert any("12.7 GB" in remark.sentence for remark in found.reasons)


def test_a_path_can_be_planned_before_there_is_a_prefiller() -> None:
    found = make_plan(card(16), IQ2, None, PlanRequest(mode="odp"))
    assert found.mode == "odp"
    assert "plan.prefiller_assumed" in codes(found)


def test_a_chosen_path_is_planned_even_where_it_does_not_fit() -> None:
    found = make_plan(card(8), IQ2, PREFILLER, PlanRequest(mode="resident"))
    assert found.mode == "resident"
    assert found.overridden
    assert not found.fits
    assert {"plan.you_chose", "plan.does_not_fit"} <= codes(found)


def test_the_user_sets_tiers_and_widths() -> None:
    found = plan(mode="odp", device_blocks=10, host_blocks=5, micro_batch=1024)
    assert [found.tier_count(tier) for tier in ("device", "host", "disk")] == [10, 5, 49]
    assert found.micro_batch == 1024
    assert plan(decoder_device_blocks=20).decoder_device_blocks == 20


def test_resident_blocks_are_spread_over_the_model() -> None:
    tiers = plan(mode="odp", device_blocks=32, host_blocks=0).tiers
    runs = "".join("d" if tier == "disk" else "r" for tier in tiers)
    assert "ddd" not in runs
    assert "rrr" not in runs


def test_slots_take_memory_of_their_own_only_without_a_carve_out() -> None:
    wishes = {"mode": "odp", "device_blocks": 0, "host_blocks": 0}
    lent, own = plan(**wishes), plan(**wishes, carve_out=False)
    assert lent.carve_out
    assert not own.carve_out
    kinds = {item.kind: item.bytes for item in own.memory}
    assert kinds["slots"] == own.slots * own.slot_bytes == lent.lent_bytes
    assert "slots" not in {item.kind for item in lent.memory}


def test_a_smaller_cache_type_leaves_room_for_more_blocks() -> None:
    wishes = PlanRequest(context=32_768)
    small = wishes.model_copy(update={"kv_type": "q4_0"})
    plain = make_plan(card(16), IQ2, PREFILLER, wishes)
    packed = make_plan(card(16), IQ2, PREFILLER, small)
    assert packed.tier_count("device") > plain.tier_count("device")


def test_other_programs_memory_counts_and_a_replaced_models_does_not() -> None:
    busy = make_plan(card(24, used=10), IQ2, PREFILLER, PlanRequest())
    assert busy.mode == "odp"
    assert "plan.memory_in_use" in codes(busy)
    ours = PlanRequest(replaced={"CUDA0": 10 * GIB})
    assert make_plan(card(24, used=10), IQ2, PREFILLER, ours).mode == "resident"


def test_memory_in_use_is_no_matter_where_streaming_was_asked_for() -> None:
    busy = card(24, used=4)
    asked = make_plan(busy, IQ2, PREFILLER, PlanRequest(mode="odp", context=16_384))
    assert "plan.all_streamed" in codes(asked)
    assert "plan.memory_in_use" not in codes(asked)


def test_a_slow_disk_is_warned_of() -> None:
    found = make_plan(card(12, ram=8, disk=0.5), IQ2, PREFILLER, PlanRequest())
    assert "plan.slow_disk" in codes(found)


def test_autocast_is_predicted_when_asked_for() -> None:
    found = plan(mode="autocast")
    assert found.mode == "autocast"
    assert found.forecast("autocast") is not None


def test_a_context_beyond_training_is_warned_of() -> None:
    small = decoder("qwen3", "0.6b", "Q4_0")
    found = make_plan(card(24), small, None, PlanRequest(context=100_000))
    assert "plan.context_beyond_training" in codes(found)


def test_the_device_can_be_chosen() -> None:
    found = make_plan(card(24, ram=64), IQ2, PREFILLER, PlanRequest(device="CPU"))
    assert found.device == "CPU"
    assert [pool.device for pool in found.pools] == ["CPU"]
    assert "plan.rates_guessed" in codes(found)  # those known are the card's
    with pytest.raises(UnknownDevice) as refused:
        make_plan(card(24), IQ2, None, PlanRequest(device="CUDA7"))
    assert refused.value.data == {"device": "CUDA7", "known": "CUDA0, CPU"}


def test_every_remark_is_a_sentence_and_every_path_has_every_length() -> None:
    found = make_plan(laptop(16), IQ2, PREFILLER, PlanRequest())
    for remark in (*found.reasons, *found.warnings):
        assert remark.code in REMARKS
        assert remark.sentence.endswith(".")
        assert "{" not in remark.sentence
    for forecast in found.forecasts:
        assert len(forecast.ttft_s) == len(found.prompt_tokens) == 11
    assert Plan.model_validate_json(found.model_dump_json()) == found


def test_an_odd_prefiller_of_no_bytes_is_no_reason_to_fail() -> None:
    empty = PrefillerFacts(name="p", block_bytes=(0,) * 64, matched=True)
    assert make_plan(card(24), IQ2, empty, PlanRequest()).mode == "resident"
