"""`twofold plan`: where a model's weights will go, here or elsewhere, and how fast that is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.table import Table

from engine.api.hardware import Profile
from engine.api.plan import KvType, MemoryKind, Plan
from engine.api.sentences import memory
from engine.api.turn import DEFAULT_POLICY, PathSetting, Policy
from engine.cli.options import Context, Kv, Model, Prefiller
from engine.errors import TwofoldError
from engine.gguf.splits import GgufModel
from engine.gguf.validate import validated_model
from engine.planner.facts import model_facts, prefiller_facts
from engine.planner.memory import MeasuredMemory
from engine.planner.plan import DEFAULT_CONTEXT, make_plan
from engine.planner.request import PlanRequest
from engine.prefiller.formats import open_prefiller
from engine.probe.errors import BadProfile
from engine.probe.memory import measured_memory
from engine.probe.probe import known_profile

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

_MAX_PROFILE_BYTES = 1 << 20

_KINDS: dict[MemoryKind, str] = {
    "weights": "decoder's weights",
    "kv_cache": "context",
    "state": "recurrent states",
    "compute": "compute buffers",
    "resident_blocks": "prefiller, resident blocks",
    "host_blocks": "prefiller, blocks in host memory",
    "slots": "slots",
    "program": "the program itself",
}


class PlanNotWritten(TwofoldError):
    """`path` cannot be written: `reason`."""

    code = "plan.not_written"


@app.command()
def plan(
    model: Model,
    prefiller: Prefiller = None,
    ctx: Context = None,
    kv: Kv = "f16",
    profile: Annotated[
        Path | None,
        typer.Option(help="Plan for the machine described in this file, not for this one."),
    ] = None,
    device: Annotated[str | None, typer.Option(help="The device to compute on, or CPU.")] = None,
    mode: Annotated[PathSetting, typer.Option(help="How prompts are read.")] = "auto",
    policy: Annotated[
        Literal["fastest", "best_answers"], typer.Option(help="What auto goes by.")
    ] = DEFAULT_POLICY,
    micro_batch: Annotated[
        int | None, typer.Option(min=32, help="Tokens a pass reads.", show_default="chosen")
    ] = None,
    device_blocks: Annotated[
        int | None, typer.Option(min=0, help="At most so many resident blocks of the prefiller.")
    ] = None,
    host_blocks: Annotated[
        int | None, typer.Option(min=0, help="At most so many of its blocks in host memory.")
    ] = None,
    force_pairing: Annotated[
        bool, typer.Option("--force-pairing", help="Use a prefiller that may not belong here.")
    ] = False,
    json: Annotated[Path | None, typer.Option(help="Also write the plan to this file.")] = None,
) -> None:
    """Plan a model's memory and predict how long prompts take on each path."""
    weights = (prefiller or model).absolute()
    machine = read_profile(profile) if profile else known_profile([weights.parent])
    decoder = validated_model(model)
    facts = model_facts(decoder)
    found = prefiller_facts(open_prefiller(prefiller), decoder, facts) if prefiller else None
    context = ctx or min(facts.trained_context or DEFAULT_CONTEXT, DEFAULT_CONTEXT)
    chosen: Policy = policy
    request = PlanRequest(
        context=context,
        kv_type=kv,
        mode=mode,
        policy=chosen,
        device=device,
        disk=str(weights),
        force_pairing=force_pairing,
        micro_batch=micro_batch,
        device_blocks=device_blocks,
        host_blocks=host_blocks,
    )
    measured = None if profile else _measured(decoder, context, kv)
    made = make_plan(machine, facts, found, request, measured)
    if json:
        try:
            json.write_text(made.model_dump_json(indent=2), encoding="utf-8")
        except OSError as error:
            raise PlanNotWritten(path=str(json), reason=error.strerror or str(error)) from error
    show(made, Console())


def read_profile(path: Path) -> Profile:
    """The machine that the file describes. Raises BadProfile."""
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_PROFILE_BYTES + 1)
    except OSError as error:
        raise BadProfile(path=str(path), reason=error.strerror or str(error)) from error
    if len(content) > _MAX_PROFILE_BYTES:
        raise BadProfile(path=str(path), reason="it is too large")
    try:
        return Profile.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        reason = f"{place}: {first['msg']}" if place else first["msg"]
        raise BadProfile(path=str(path), reason=reason) from error


def _measured(decoder: GgufModel, context: int, kv_type: KvType) -> MeasuredMemory | None:
    """The library's own count, or None where it cannot give one: the formula then serves."""
    try:
        return measured_memory(decoder, context, kv_type)
    except TwofoldError:
        return None


def show(made: Plan, console: Console) -> None:
    """Prints the plan: what it is, memory, times, and why."""
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="bold", no_wrap=True)
    facts.add_column(overflow="fold")
    facts.add_row("Decoder", made.decoder)
    facts.add_row("Prefiller", made.prefiller or "none")
    facts.add_row("Device", made.device)
    facts.add_row("Context", f"{made.context:,} tokens, {made.kv_type}")
    facts.add_row("Mode", made.mode + (" (your choice)" if made.overridden else ""))
    facts.add_row(
        "Decoder's blocks", f"{made.decoder_device_blocks} of {made.blocks} on the device"
    )
    if made.tiers:
        tiers = ", ".join(f"{made.tier_count(tier)} {tier}" for tier in ("device", "host", "disk"))
        facts.add_row("Prefiller's blocks", tiers)
    if made.slots:
        where = "carved out of the decoder" if made.carve_out else "of their own"
        facts.add_row("Slots", f"{made.slots} of {memory(made.slot_bytes)}, {where}")
    facts.add_row("Pass", f"up to {made.micro_batch:,} tokens")
    if made.forecast("odp"):
        facts.add_row("Crossover", _crossover(made.crossover))
    facts.add_row("Answers", f"{made.decode_tps:.1f} tokens/s")
    console.print(facts, highlight=False, markup=False)
    console.print()
    console.print(_memory(made))
    console.print()
    console.print(_times(made))
    console.print()
    for remark in made.reasons:
        console.print(f"- {remark.sentence}", markup=False, highlight=False, soft_wrap=True)
    for remark in made.warnings:
        line = f"! {remark.sentence} [{remark.code}]"
        console.print(line, style="yellow", markup=False, highlight=False, soft_wrap=True)


def _crossover(tokens: int | None) -> str:
    if tokens is None:
        return "odp is not faster than the decoder at long lengths"
    return f"odp is faster than the decoder from {tokens:,} tokens on"


def _memory(made: Plan) -> Table:
    title = "Memory" if made.memory_exact else "Memory (by formula)"
    table = Table(box=None)
    table.add_column(title)
    for pool in made.pools:
        table.add_column(pool.device, justify="right")
    for kind, words in _KINDS.items():
        sizes = {item.device: item.bytes for item in made.memory if item.kind == kind}
        if sizes:
            row = (
                memory(sizes[pool.device]) if pool.device in sizes else "" for pool in made.pools
            )
            table.add_row(words, *row)
    table.add_row("planned", *(memory(pool.planned) for pool in made.pools), style="bold")
    table.add_row("margin", *(memory(pool.margin) for pool in made.pools))
    table.add_row("free", *(memory(pool.free) for pool in made.pools))
    return table


def _times(made: Plan) -> Table:
    table = Table(box=None)
    table.add_column("Time to the first token", justify="right")
    for forecast in made.forecasts:
        notes = [] if forecast.fits else ["no room"]
        notes += [] if forecast.measured else ["guess"]
        note = f" ({', '.join(notes)})" if notes else ""
        table.add_column(forecast.path + note, justify="right")
    for index, tokens in enumerate(made.prompt_tokens):
        times = (_seconds(forecast.ttft_s[index]) for forecast in made.forecasts)
        beyond = tokens > made.context
        label = f"{tokens:,} tokens{', with a longer context' if beyond else ''}"
        table.add_row(label, *times, style="dim" if beyond else None)
    return table


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 100 else f"{seconds:,.0f} s"
