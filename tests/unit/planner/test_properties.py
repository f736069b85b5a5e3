"""What holds for every machine: more memory is never slower, no plan takes more than is free."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.api.hardware import Profile
from engine.api.plan import Plan
from engine.planner.facts import ModelFacts, assumed_prefiller
from engine.planner.plan import make_plan
from engine.planner.request import PlanRequest
from tests.support.planning import card, decoder, laptop, shared

MODELS = [
    decoder("qwen3", "1.7b", "Q4_0"),
    decoder("qwen3", "8b", "IQ2_XXS"),
    decoder("qwen35", "27b", "IQ1_S"),
    decoder("qwen35", "27b", "Q4_K"),
]
models = st.sampled_from(MODELS)
sizes = st.floats(2, 96).map(lambda gib: round(gib, 2))
contexts = st.sampled_from([512, 4096, 16_384, 40_960])
few = settings(max_examples=25, deadline=None)


def plan(profile: Profile, model: ModelFacts, context: int, **wishes: object) -> Plan:
    request = PlanRequest.model_validate({"context": context, "policy": "fastest"} | wishes)
    return make_plan(profile, model, assumed_prefiller(model), request)


@few
@given(models, sizes, st.floats(0, 40), sizes, contexts)
def test_more_device_memory_never_gives_a_slower_plan(
    model: ModelFacts, gib: float, more: float, ram: float, context: int
) -> None:
    small = plan(card(gib, ram=ram, ram_used=1), model, context)
    large = plan(card(gib + more, ram=ram, ram_used=1), model, context)
    if small.fits:
        assert large.fits
        assert large.turn_s <= small.turn_s * (1 + 1e-9)


@few
@given(models, sizes, st.floats(0, 40), sizes, contexts)
def test_more_host_memory_never_gives_a_slower_plan(
    model: ModelFacts, gib: float, more: float, ram: float, context: int
) -> None:
    small = plan(card(gib, ram=ram, ram_used=1), model, context)
    large = plan(card(gib, ram=ram + more, ram_used=1), model, context)
    if small.fits:
        assert large.fits
        assert large.turn_s <= small.turn_s * (1 + 1e-9)


@few
@given(models, sizes, st.floats(0, 40), contexts, st.sampled_from([laptop, shared]))
def test_more_of_a_shared_memory_never_gives_a_slower_plan(
    model: ModelFacts, ram: float, more: float, context: int, make: Callable[..., Profile]
) -> None:
    small = plan(make(ram, used=1), model, context)
    large = plan(make(ram + more, used=1), model, context)
    if small.fits:
        assert large.fits
        assert large.turn_s <= small.turn_s * (1 + 1e-9)


@few
@given(models, sizes, st.floats(0, 20), sizes, contexts, st.booleans())
def test_planned_memory_never_exceeds_free_memory(
    model: ModelFacts, gib: float, used: float, ram: float, context: int, carve_out: bool
) -> None:
    machine = card(gib, used=min(used, gib), ram=ram, ram_used=1)
    found = plan(machine, model, context, policy="best_answers", carve_out=carve_out)
    if not found.fits:
        assert "plan.does_not_fit" in {remark.code for remark in found.warnings}
        return
    for pool in found.pools:
        assert pool.planned + pool.margin <= pool.free
        assert pool.free <= pool.total
        items = sum(item.bytes for item in found.memory if item.device == pool.device)
        assert items == pool.planned


@few
@given(models, sizes, sizes, contexts)
def test_no_plan_is_predicted_slower_than_the_decoder_alone(
    model: ModelFacts, gib: float, ram: float, context: int
) -> None:
    machine = card(gib, ram=ram, ram_used=1)
    alone = plan(machine, model, context, mode="decoder")
    free = plan(machine, model, context)
    if alone.fits:
        assert free.turn_s <= alone.turn_s * (1 + 1e-9)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_a_model_about_to_be_replaced_does_not_count(model: ModelFacts) -> None:
    held = 6 << 30
    busy = card(16, used=6)
    assert plan(busy, model, 4096, replaced={"CUDA0": held}).turn_s == pytest.approx(
        plan(card(16), model, 4096).turn_s
    )
