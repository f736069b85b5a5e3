"""How wide the passes of a model are: as its plan says, so that the plan is what runs."""

from __future__ import annotations

from engine.gguf.splits import GgufModel
from engine.planner.facts import PrefillerFacts, block_bytes, model_facts
from engine.planner.plan import make_plan
from engine.planner.rates import CPU
from engine.planner.request import PlanRequest
from engine.prefiller.formats import Prefiller
from engine.probe.probe import known_profile
from engine.runtime.settings import LoadSettings


def planned_width(
    decoder: GgufModel,
    prefiller: Prefiller | None,
    settings: LoadSettings,
    context: int,
    device: str = CPU,
) -> int | None:
    """Tokens a pass on the device of that name; None where the plan does not fit or exceeds the
    budget for computing, and the engine has to do with less."""
    weights = (prefiller.files[0] if prefiller else decoder.path).absolute()
    facts = model_facts(decoder)
    pair = None
    if prefiller is not None:
        sizes = block_bytes(prefiller, facts)
        pair = PrefillerFacts(name=prefiller.path.name, block_bytes=sizes, matched=True)
    request = PlanRequest(
        context=context,
        policy=settings.policy,
        device=device,
        disk=str(weights),
        slots=settings.slots,
        carve_out=settings.carve_out,
    )
    plan = make_plan(known_profile([weights.parent]), facts, pair, request)
    compute = sum(item.bytes for item in plan.memory if item.kind == "compute")
    return plan.micro_batch if plan.fits and compute <= settings.compute_budget else None
