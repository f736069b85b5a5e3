"""Says whether a model runs on this machine, by the planner; by its size where that is all."""

from __future__ import annotations

from collections.abc import Sequence

from engine.api.hardware import Profile
from engine.api.models import Fit, FitVerdict
from engine.api.sentences import memory
from engine.planner.facts import BlockFacts, ModelFacts
from engine.planner.plan import make_plan
from engine.planner.request import PlanRequest

# A context, buffers and the program itself, beside the weights, when only the size is known.
_BESIDE = 1.15
_BESIDE_BYTES = 1 << 30


def fit_of_facts(
    profile: Profile, facts: ModelFacts, context: int | None = None, *, estimated: bool = False
) -> Fit:
    """By the model's own header, or (`estimated`) by another's."""
    plan = make_plan(profile, facts, None, PlanRequest(context=context, mode="decoder"))
    near = plan.pools[0]
    missing = 0
    verdict: FitVerdict
    if not plan.fits:
        needed = sum(pool.planned + pool.margin for pool in plan.pools)
        free = sum(pool.free for pool in plan.pools)
        verdict, missing = "too_large", max(1, needed - free)
        words = f"It needs {memory(needed)} and {memory(free)} are free."
    elif plan.decoder_device_blocks < plan.blocks:
        verdict = "partly"
        words = (
            f"{plan.decoder_device_blocks} of {plan.blocks} blocks fit into the memory of "
            f"{near.device}; the rest computes on the host, more slowly."
        )
    else:
        verdict = "fits"
        words = f"It fits, with {plan.context:,} tokens of context, into {_place(near.device)}."
    return Fit(
        verdict=verdict,
        sentence=words,
        estimated=estimated,
        decode_tps=None if estimated else plan.decode_tps,
        device=near.device,
        blocks=plan.blocks,
        device_blocks=plan.decoder_device_blocks,
        context=plan.context,
        missing=missing,
    )


def fits_of_sizes(
    profile: Profile, known: ModelFacts | None, known_bytes: int, sizes: Sequence[int]
) -> list[Fit]:
    """For other quantisations of a model whose header has been read: the same blocks, with
    weights scaled to the file's size. Without any header, by the size alone."""
    if known is None or known_bytes <= 0:
        return [_by_size(profile, size) for size in sizes]
    return [
        fit_of_facts(profile, _scaled(known, size / known_bytes), estimated=True) for size in sizes
    ]


def _scaled(facts: ModelFacts, ratio: float) -> ModelFacts:
    def block(one: BlockFacts) -> BlockFacts:
        return one.model_copy(
            update={
                "weight_bytes": round(one.weight_bytes * ratio),
                "linear_bytes": round(one.linear_bytes * ratio),
            }
        )

    return facts.model_copy(
        update={
            "blocks": tuple(block(one) for one in facts.blocks),
            "embedding_bytes": round(facts.embedding_bytes * ratio),
            "head_bytes": round(facts.head_bytes * ratio),
        }
    )


def _by_size(profile: Profile, size: int) -> Fit:
    needed = size * _BESIDE + _BESIDE_BYTES
    host = profile.host.memory_free
    device = max((one.memory_free for one in profile.devices), default=0)
    if needed <= (device or host):
        words = f"By its size it fits ({memory(needed)} with a context)."
        name = max(profile.devices, key=lambda one: one.memory_free).name if device else "CPU"
        return Fit(verdict="fits", sentence=words, estimated=True, device=name)
    if needed <= device + host:
        words = f"By its size it fits partly on the device ({memory(needed)} with a context)."
        return Fit(verdict="partly", sentence=words, estimated=True)
    words = f"By its size it is too large: {memory(needed)} with a context."
    missing = round(needed) - device - host
    return Fit(verdict="too_large", sentence=words, estimated=True, missing=missing)


def _place(device: str) -> str:
    return "memory" if device == "CPU" else f"the memory of {device}"
