"""Twenty machines times ten decoders: what each plan comes to.

plan_table.txt has one line a plan: the path; the prefiller's blocks on the device, in host memory
and on the disk; the decoder's blocks on the device; "fits" or "short"; and the warnings' codes
without "plan.". The planner wrote the lines and they were read through once; after later changes
only their differences were. Nobody worked them out by hand. What they rest on is computed here a
second time, apart from the planner: sizes from the models' published shapes, and how many blocks
that leaves room for. A line that changes has to be read through again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.api.hardware import Profile, Rates
from engine.api.plan import Plan
from engine.assets import asset
from engine.planner.facts import ModelFacts, assumed_prefiller
from engine.planner.plan import make_plan
from engine.planner.request import PlanRequest
from tests.support.planning import GIB, card, decoder, laptop, mixture, shared

TABLE = Path(__file__).with_name("plan_table.txt")
CONTEXT = 16_384

MACHINES: dict[str, Profile] = {
    "card 6": card(6),
    "card 8": card(8),
    "card 8, RAM 16": card(8, ram=16),
    "card 12": card(12),
    "card 16": card(16),
    "card 16, 12 in use": card(16, used=12),
    "card 24": card(24),
    "card 24, RAM 8": card(24, ram=8),
    "card 24, slow disk": card(24, ram=8, disk=0.4),
    "card 24, disk unknown": card(24, ram=8, disk=None),
    "card 24, rates unknown": card(24, rates=Rates()),
    "card 32": card(32),
    "card 32, Blackwell guessed": card(32, rates=Rates(), capability="12.0"),
    "card 48": card(48),
    "laptop 8": laptop(8),
    "laptop 16": laptop(16),
    "laptop 32": laptop(32),
    "laptop 64, rates unknown": laptop(64, rates=Rates()),
    "shared 16": shared(16),
    "DGX Spark": Profile.model_validate_json(asset("profiles/dgx_spark.json").read_bytes()),
}
DECODERS: dict[str, ModelFacts] = {
    "0.6B Q4_0": decoder("qwen3", "0.6b", "Q4_0"),
    "1.7B Q4_0": decoder("qwen3", "1.7b", "Q4_0"),
    "4B IQ2_XXS": decoder("qwen3", "4b", "IQ2_XXS"),
    "8B IQ1_S": decoder("qwen3", "8b", "IQ1_S"),
    "8B Q4_K": decoder("qwen3", "8b", "Q4_K"),
    "27B IQ1_S": decoder("qwen35", "27b", "IQ1_S"),
    "27B IQ2_XXS": decoder("qwen35", "27b", "IQ2_XXS"),
    "27B IQ3_XXS": decoder("qwen35", "27b", "IQ3_XXS"),
    "27B Q4_K": decoder("qwen35", "27b", "Q4_K"),
    "27B experts": mixture(decoder("qwen35", "27b", "IQ2_XXS")),
}
# GiB of the blocks, the embedding, the head, the cache with states, and the prefiller; from width,
# FFN and heads of each model, bits of each type, and 16,384 tokens of 16-bit keys and values.
SIZES = {
    "0.6B Q4_0": (0.23, 0.12, 0.12, 1.75, 0.23),
    "1.7B Q4_0": (0.74, 0.24, 0.24, 1.75, 0.74),
    "4B IQ2_XXS": (0.87, 0.30, 0.30, 2.25, 1.90),
    "8B IQ1_S": (1.26, 0.33, 0.48, 2.25, 3.64),
    "8B Q4_K": (3.64, 0.33, 0.48, 2.25, 3.64),
    "27B IQ1_S": (4.46, 0.67, 0.97, 1.15, 12.74),
    "27B IQ2_XXS": (5.87, 0.67, 0.97, 1.15, 12.74),
    "27B IQ3_XXS": (8.71, 0.67, 0.97, 1.15, 12.74),
    "27B Q4_K": (12.78, 0.67, 0.97, 1.15, 12.74),
}


def row(plan: Plan) -> str:
    tiers = "/".join(str(plan.tier_count(tier)) for tier in ("device", "host", "disk"))
    warnings = sorted({remark.code.removeprefix("plan.") for remark in plan.warnings})
    columns = (
        plan.mode,
        tiers if plan.tiers else "-",
        f"{plan.decoder_device_blocks} of {plan.blocks}",
        "fits" if plan.fits else "short",
        " ".join(warnings) or "-",
    )
    return " | ".join(columns)


def expected() -> dict[tuple[str, str], str]:
    rows: dict[tuple[str, str], str] = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        machine, model, rest = (part.strip() for part in line.split("|", 2))
        rows[machine, model] = " | ".join(part.strip() for part in rest.split("|"))
    return rows


def test_the_table_has_every_machine_with_every_decoder() -> None:
    assert set(expected()) == {(machine, model) for machine in MACHINES for model in DECODERS}
    assert len(expected()) == 200


@pytest.mark.parametrize("machine", MACHINES)
def test_a_machines_plans_are_those_of_the_table(machine: str) -> None:
    rows = expected()
    request = PlanRequest(context=CONTEXT)
    for name, model in DECODERS.items():
        plan = make_plan(MACHINES[machine], model, assumed_prefiller(model), request)
        assert row(plan) == rows[machine, name], (machine, name)


@pytest.mark.parametrize("machine", MACHINES)
def test_as_many_blocks_are_resident_as_there_is_room_for(machine: str) -> None:
    request = PlanRequest(context=CONTEXT)
    for name, sizes in SIZES.items():
        model = DECODERS[name]
        plan = make_plan(MACHINES[machine], model, assumed_prefiller(model), request)
        if not plan.tiers or not plan.fits:
            continue
        blocks, embedding, head, cache, prefiller = sizes
        share = plan.decoder_device_blocks / plan.blocks
        pool = plan.pools[0]
        room = (pool.free - min(2 * GIB, pool.total / 10, pool.free / 4)) / GIB
        compute = next(item.bytes for item in plan.memory if item.kind == "compute") / GIB
        room -= (blocks + cache) * share + compute
        if share == 1:
            # The CPU reads a tied head from the embedding.
            room -= 0 if model.tied and pool.device == "CPU" else head
        if len(plan.pools) == 1:
            room -= embedding + 0.25
        fitting = min(plan.blocks, room / (prefiller / plan.blocks))
        assert plan.tier_count("device") == pytest.approx(fitting, abs=2), (machine, name)


@pytest.mark.parametrize("name", SIZES)
def test_the_sizes_are_those_of_the_published_shapes(name: str) -> None:
    model = DECODERS[name]
    blocks, embedding, head, cache, prefiller = SIZES[name]
    state = sum(block.state_bytes for block in model.blocks)
    keys = sum(block.kv_values for block in model.blocks) * 2 * CONTEXT
    assert sum(block.weight_bytes for block in model.blocks) / GIB == pytest.approx(
        blocks, abs=0.02
    )
    assert model.embedding_bytes / GIB == pytest.approx(embedding, abs=0.01)
    assert model.head_bytes / GIB == pytest.approx(head, abs=0.01)
    assert (keys + state) / GIB == pytest.approx(cache, abs=0.01)
    assert assumed_prefiller(model).nbytes / GIB == pytest.approx(prefiller, abs=0.01)
