"""Twenty machines times ten decoders: what each plan comes to.

Each of the 200 plans is held against two things that did not come from the planner:
`arithmetic`, which works the same decision out from published shapes and the machine's figures
(path, tiers, split, whether it fits, times, crossover), and plan_table.txt, which was read
through line by line. It has one line a plan: the path; the prefiller's blocks on the device, in
host memory and on the disk; the decoder's blocks on the device; "fits" or "short"; and the
warnings' codes without "plan.". A line that changes has to be read through again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.api.hardware import Profile, Rates
from engine.api.plan import Plan
from engine.api.turn import Path as ReadingPath
from engine.assets import asset
from engine.planner.facts import ModelFacts, assumed_prefiller
from engine.planner.plan import make_plan
from engine.planner.request import PlanRequest
from tests.support.planning import card, decoder, laptop, mixture, shared
from tests.unit.planner.arithmetic import CONTEXT, Box, Case, Layout, Model

TABLE = Path(__file__).with_name("plan_table.txt")
SPARK = Profile.model_validate_json(asset("profiles/dgx_spark.json").read_bytes())


def card_box(gpu: float, used: float = 0, ram: float = 32, disk: float = 5.5) -> Box:
    """The figures behind `card`, whose host has 6 GiB in use."""
    return Box(ram, ram - 6, gpu, gpu - used, disk=disk)


def laptop_box(ram: float) -> Box:
    """And those behind `laptop`, with 4 GiB in use."""
    return Box(ram, ram - 4, products=0.5, prefill=0.9, attention=0.1, memory=60, host=60, disk=3)


def guessed_box(gpu: float, prefill: float) -> Box:
    """A card of which nothing is known: a small one's rates."""
    return Box(
        32, 26, gpu, gpu,
        products=30, prefill=prefill, attention=8, memory=300, host=20, transfer=10, known=False,
    )  # fmt: skip


# As the planner gets them, and as the figures that they mean.
MACHINES: dict[str, tuple[Profile, Box]] = {
    "card 6": (card(6), card_box(6)),
    "card 8": (card(8), card_box(8)),
    "card 8, RAM 16": (card(8, ram=16), card_box(8, ram=16)),
    "card 12": (card(12), card_box(12)),
    "card 16": (card(16), card_box(16)),
    "card 16, 12 in use": (card(16, used=12), card_box(16, used=12)),
    "card 24": (card(24), card_box(24)),
    "card 24, RAM 8": (card(24, ram=8), card_box(24, ram=8)),
    "card 24, slow disk": (card(24, ram=8, disk=0.4), card_box(24, ram=8, disk=0.4)),
    "card 24, disk unknown": (
        card(24, ram=8, disk=None), Box(8, 2, 24, 24, disk=1, disk_known=False),
    ),
    "card 24, rates unknown": (card(24, rates=Rates()), guessed_box(24, 30)),
    "card 32": (card(32), card_box(32)),
    "card 32, Blackwell guessed": (
        card(32, rates=Rates(), capability="12.0"), guessed_box(32, 60),
    ),
    "card 48": (card(48), card_box(48)),
    "laptop 8": (laptop(8), laptop_box(8)),
    "laptop 16": (laptop(16), laptop_box(16)),
    "laptop 32": (laptop(32), laptop_box(32)),
    "laptop 64, rates unknown": (
        laptop(64, rates=Rates()),
        Box(
            64, 60,
            products=8 * 0.04, prefill=8 * 0.04, attention=8 * 0.01, memory=20, disk=3, known=False,
        ),
    ),
    "shared 16": (shared(16), Box(16, 8, 16, 8, one_memory=True, disk=6)),
    "DGX Spark": (
        SPARK,
        Box(
            119, 115, 119, 115, one_memory=True,
            products=41.2, prefill=81.7, attention=9.71, memory=273, once_s=0, odp_s=0.51,
        ),
    ),
}  # fmt: skip
DECODERS: dict[str, tuple[ModelFacts, Model]] = {
    "0.6B Q4_0": (decoder("qwen3", "0.6b", "Q4_0"), Model("0.6B", "Q4_0")),
    "1.7B Q4_0": (decoder("qwen3", "1.7b", "Q4_0"), Model("1.7B", "Q4_0")),
    "4B IQ2_XXS": (decoder("qwen3", "4b", "IQ2_XXS"), Model("4B", "IQ2_XXS")),
    "8B IQ1_S": (decoder("qwen3", "8b", "IQ1_S"), Model("8B", "IQ1_S")),
    "8B Q4_K": (decoder("qwen3", "8b", "Q4_K"), Model("8B", "Q4_K")),
    "27B IQ1_S": (decoder("qwen35", "27b", "IQ1_S"), Model("27B", "IQ1_S")),
    "27B IQ2_XXS": (decoder("qwen35", "27b", "IQ2_XXS"), Model("27B", "IQ2_XXS")),
    "27B IQ3_XXS": (decoder("qwen35", "27b", "IQ3_XXS"), Model("27B", "IQ3_XXS")),
    "27B Q4_K": (decoder("qwen35", "27b", "Q4_K"), Model("27B", "Q4_K")),
    "27B experts": (
        mixture(decoder("qwen35", "27b", "IQ2_XXS")), Model("27B", "IQ2_XXS", experts=True),
    ),
}  # fmt: skip
# A split that fits by a fraction of a block by the one, and misses it by the other: with 13 of the
# decoder's blocks on the card the prefiller gains nothing, with 12 a little. Both turns take 84 s.
TOO_CLOSE = {("card 16, 12 in use", "27B Q4_K")}


def plan_for(machine: str, name: str) -> Plan:
    model = DECODERS[name][0]
    request = PlanRequest(context=CONTEXT)
    return make_plan(MACHINES[machine][0], model, assumed_prefiller(model), request)


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
    for name in DECODERS:
        assert row(plan_for(machine, name)) == rows[machine, name], (machine, name)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_machines_plans_are_those_that_arithmetic_gives(machine: str) -> None:
    for name, (_, model) in DECODERS.items():
        if (machine, name) in TOO_CLOSE:
            continue
        plan = plan_for(machine, name)
        wanted = Case(MACHINES[machine][1], model).expectation()
        where = (machine, name, wanted)
        assert (plan.mode, plan.fits) == (wanted.mode, wanted.fits), where
        assert plan.decoder_device_blocks == pytest.approx(wanted.near, abs=1), where
        tiers = [plan.tier_count(tier) for tier in ("device", "host", "disk")]
        assert tiers == pytest.approx([wanted.resident, wanted.hosted, wanted.streamed], abs=1), (
            where
        )
        if plan.fits:
            assert plan.turn_s == pytest.approx(wanted.turn_s, rel=0.06), where


@pytest.mark.parametrize("machine", MACHINES)
def test_the_times_of_a_plan_are_those_that_arithmetic_gives(machine: str) -> None:
    for name, (_, model) in DECODERS.items():
        plan, case = plan_for(machine, name), Case(MACHINES[machine][1], model)
        tiers = [plan.tier_count(tier) for tier in ("device", "host", "disk")]
        layout = Layout(plan.micro_batch, plan.decoder_device_blocks, *tiers)
        paths: list[ReadingPath] = ["decoder"] if plan.mode == "decoder" else ["decoder", plan.mode]
        for path in paths:
            forecast = plan.forecast(path)
            assert forecast is not None
            for tokens in (512, 2048, 8192, 16_384):
                ours = case.read_s(layout, tokens, prefiller=path != "decoder")
                assert forecast.at(tokens) == pytest.approx(ours, rel=0.08), (machine, name, path)


@pytest.mark.parametrize("machine", MACHINES)
def test_the_crossover_lies_where_arithmetic_puts_it(machine: str) -> None:
    """From there on the streamed prefiller is the faster one, and just below it is not."""
    for name, (_, model) in DECODERS.items():
        plan, case = plan_for(machine, name), Case(MACHINES[machine][1], model)
        found = plan.crossover
        if plan.mode != "odp" or found is None or found < 128:
            continue
        tiers = [plan.tier_count(tier) for tier in ("device", "host", "disk")]
        layout = Layout(plan.micro_batch, plan.decoder_device_blocks, *tiers)

        def gain(tokens: int, case: Case = case, layout: Layout = layout) -> float:
            odp, alone = (case.read_s(layout, tokens, prefiller=way) for way in (True, False))
            return alone / odp

        where = (machine, name, found)
        assert all(gain(tokens) > 0.96 for tokens in range(found, 40_000, 97)), where
        assert min(gain(tokens) for tokens in range(found * 9 // 10, found)) < 1.04, where
