"""What the prefill page says of a plan: memory by kind, a sentence for each path, reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app.i18n import numbers, tr
from app.i18n.catalogue import has
from engine.api.engine import CardMemory, MemoryReport
from engine.api.hardware import Profile
from engine.api.plan import Plan, Remark
from engine.api.survey import Planned
from engine.api.turn import Path, PathSetting

MemoryPart = Literal[
    "decoder", "context", "compute", "resident", "slots", "program", "other", "free"
]
# The prompt that the sentences speak of.
TOLD_TOKENS = 8192
GIB = 1 << 30

_PARTS: dict[str, MemoryPart] = {
    "weights": "decoder",
    "kv_cache": "context",
    "state": "context",
    "compute": "compute",
    "resident_blocks": "resident",
    "slots": "slots",
    "program": "program",
}


@dataclass(frozen=True)
class Memory:
    """Bytes of one memory by kind, in the order of the bar; `now`: as it is, else as planned."""

    device: str
    total: int
    parts: tuple[tuple[MemoryPart, int], ...]
    now: bool


def planned_memory(plan: Plan) -> Memory:
    pool = plan.pools[0]
    sizes: dict[MemoryPart, int] = {}
    for item in plan.memory:
        if item.device == pool.device and (part := _PARTS.get(item.kind)) is not None:
            sizes[part] = sizes.get(part, 0) + item.bytes
    sizes["other"] = max(0, pool.total - pool.free)
    return _memory(pool.device, pool.total, sizes, now=False)


def memory_now(report: MemoryReport, device: str, profile: Profile) -> Memory | None:
    """The memory of `device` as it is; None without a loaded model, and for a card whose driver
    does not tell."""
    use = report.model
    if use is None:
        return None
    sizes: dict[MemoryPart, int] = {
        "decoder": use.weights,
        "context": use.context,
        "compute": use.compute,
        "resident": use.resident,
        "slots": use.slots_allocated,
    }
    own = sum(sizes.values())
    if device == "CPU":
        total, taken = report.machine_total, report.machine_total - report.machine_available
        # Weights that are mapped from their file count as available until somebody needs the room.
        sizes["other"] = max(0, taken - min(report.worker_resident, own))
        return _memory(device, total, sizes, now=True)
    card = _card_of(device, report, profile)
    if card is None:
        return None
    sizes["other"] = max(0, card.total - card.free - own)
    return _memory(device, card.total, sizes, now=True)


def _card_of(device: str, report: MemoryReport, profile: Profile) -> CardMemory | None:
    known = next((one for one in profile.devices if one.name == device), None)
    if known is None or known.bus_id is None:
        return None
    bus_id = known.bus_id.lower()
    return next((card for card in report.cards if card.bus_id.lower() == bus_id), None)


def _memory(device: str, total: int, sizes: dict[MemoryPart, int], *, now: bool) -> Memory:
    sizes["free"] = max(0, total - sum(sizes.values()))
    order: tuple[MemoryPart, ...] = (
        "decoder", "context", "compute", "resident", "slots", "program", "other", "free",
    )  # fmt: skip
    parts: tuple[tuple[MemoryPart, int], ...] = tuple(
        (part, sizes[part]) for part in order if sizes.get(part)
    )
    return Memory(device, total, parts, now)


def device_name(device: str, profile: Profile) -> str:
    """As people call it."""
    if device == "CPU":
        return tr("prefill.host")
    found = next((one for one in profile.devices if one.name == device), None)
    return (found.description if found else None) or device


def path_sentence(setting: PathSetting, auto: Plan, chosen: Plan, disk_gbps: float | None) -> str:
    """What this setting means on this machine; `chosen` is the plan made for it."""
    tokens = numbers.count(min(TOLD_TOKENS, auto.context))
    if setting == "auto":
        if auto.mode == "decoder":
            # The router then weighs autocast, which only a measurement can tell of.
            alone = any(remark.code == "plan.no_prefiller" for remark in auto.reasons)
            key = "prefill.auto_alone" if alone else "prefill.auto_decoder"
            return tr(key, tokens=tokens, time=_time(auto, "decoder"))
        return tr(
            "prefill.auto_other",
            path=tr(f"paths.{auto.mode}"),
            tokens=tokens,
            time=_time(auto, auto.mode),
            decoder=_time(auto, "decoder"),
        )
    if setting == "decoder":
        return tr("prefill.decoder", tokens=tokens, time=_time(auto, "decoder"))
    if setting == "autocast":
        return tr("prefill.autocast", tokens=tokens, time=_time(chosen, "autocast"))
    missing = any(warning.code == "plan.prefiller_assumed" for warning in chosen.warnings)
    time = _time(chosen, setting)
    if missing:
        return tr("prefill.no_prefiller", tokens=tokens, time=time)
    forecast = chosen.forecast(setting)
    if forecast is None:
        return tr("prefill.refused")
    if setting == "resident":
        size = sum(item.bytes for item in chosen.memory if item.kind == "resident_blocks")
        key = "prefill.resident" if forecast.fits else "prefill.resident_too_large"
        return tr(key, size=numbers.memory(size), tokens=tokens, time=time)
    streamed = chosen.tier_count("disk")
    rate = numbers.disk_rate(disk_gbps * 1e9) if disk_gbps else tr("prefill.unmeasured")
    key = "prefill.odp" if chosen.carve_out else "prefill.odp_own_slots"
    return tr(
        key, streamed=streamed, blocks=chosen.blocks, rate=rate, tokens=tokens, time=time,
        size=numbers.memory(chosen.slots * chosen.slot_bytes),
    )  # fmt: skip


def _time(plan: Plan, path: Path) -> str:
    """About how long the told prompt takes; an interpolation is not needed, the plan has it."""
    forecast = plan.forecast(path)
    if forecast is None:
        return tr("prefill.unknown_time")
    lengths = plan.prompt_tokens
    near = min(TOLD_TOKENS, plan.context)
    index = max((i for i, length in enumerate(lengths) if length <= near), default=0)
    return numbers.seconds(forecast.ttft_s[index])


def crossover_words(plan: Plan) -> str:
    """Where ODP begins to be faster than the decoder, as a sentence."""
    if plan.forecast("odp") is None:
        return tr("prefill.crossover_none")
    found = plan.crossover
    if found is None or found > plan.context:
        return tr("prefill.crossover_never", context=numbers.count(plan.context))
    if found <= plan.prompt_tokens[0]:
        return tr("prefill.crossover_always")
    return tr("prefill.crossover", tokens=numbers.count(rounded(found)))


def rounded(tokens: int) -> int:
    """Two digits: it is an estimate."""
    scale = 10 ** max(0, len(str(tokens)) - 2)
    return round(tokens / scale) * scale


def remark_words(remark: Remark, profile: Profile) -> str:
    """The planner's sentence in the window's language."""
    key = f"remarks.{remark.code}"
    if not has(key):
        return remark.sentence
    data = dict(remark.data)
    if has(path := f"paths.{data.get('mode')}"):
        data["mode"] = tr(path)
    if name := data.get("name"):
        data["name"] = device_name("CPU" if name == "the host" else name, profile)
    for fact, value in remark.data.items():
        if fact.endswith("gib"):  # sizes look the same everywhere in the window
            data[fact.removesuffix("gib") + "size"] = numbers.memory(value * GIB)
    try:
        return tr(key, **data) if data else tr(key)
    except (KeyError, IndexError, ValueError):
        return remark.sentence


def disk_gbps(planned: Planned) -> float | None:
    return planned.profile.disks[0].read_gbps if planned.profile.disks else None
