"""The planner: a machine, a decoder, a prefiller and wishes -> one plan with its reasons.

Every layout that could be best is tried: each width of a pass, and each split of the decoder's
blocks over the memories; the rest follows, since more resident blocks are never slower. More
memory only adds layouts to choose from, so it never makes the best of them slower.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.api.hardware import Profile
from engine.api.plan import PROMPT_LENGTHS, Forecast, PathCost, Plan, Remark
from engine.api.turn import Path
from engine.errors import TwofoldError
from engine.planner.facts import ModelFacts, PrefillerFacts, assumed_prefiller
from engine.planner.layout import Layout, Task, filled
from engine.planner.machine import Machine, machine
from engine.planner.memory import GIB, MeasuredMemory
from engine.planner.rates import CPU, DISK_RATE
from engine.planner.request import PlanRequest
from engine.planner.times import crossover, ever_faster, prompt_seconds
from engine.planner.words import remark

DEFAULT_CONTEXT = 16_384
MICRO_BATCHES = (128, 256, 512, 1024, 2048, 4096, 8192)
# The turns that layouts are compared by: prompts of these lengths, answers of so many tokens.
TURN_PROMPTS = (512, 2048, 8192, 32_768)
ANSWER_TOKENS = 256
# A pass that waits longer than this for the disk deserves a warning.
_SLOW_PASS_S = 10.0
# So much memory in use by others is worth a word.
_MUCH_IN_USE = GIB


class UnknownDevice(TwofoldError):
    """`device` is none of the profile's, which are `known`."""

    code = "plan.unknown_device"


def make_plan(
    profile: Profile,
    model: ModelFacts,
    prefiller: PrefillerFacts | None = None,
    request: PlanRequest | None = None,
    measured: MeasuredMemory | None = None,
) -> Plan:
    """The plan; raises UnknownDevice. `measured` counts only for its own context and cache type."""
    return _Planner(profile, model, prefiller, request or PlanRequest(), measured).plan()


@dataclass(frozen=True, slots=True)
class _Choice:
    """A layout, and how long an average turn takes with it on its best path."""

    layout: Layout
    turn_s: float


class _Planner:
    def __init__(
        self,
        profile: Profile,
        model: ModelFacts,
        prefiller: PrefillerFacts | None,
        request: PlanRequest,
        measured: MeasuredMemory | None,
    ) -> None:
        self.model, self.request = model, request
        self.profile = profile
        try:
            self.machine: Machine = machine(profile, request.device, request.disk, request.replaced)
        except KeyError as error:
            known = ", ".join([*(device.name for device in profile.devices), "CPU"])
            raise UnknownDevice(device=request.device, known=known) from error
        self.context = request.context or min(
            model.trained_context or DEFAULT_CONTEXT, DEFAULT_CONTEXT
        )
        self.reasons: list[Remark] = []
        self.warnings: list[Remark] = []
        self.prefiller = self._usable(prefiller)
        if measured and (measured.context, measured.kv_type) != (self.context, request.kv_type):
            measured = None
        self.task = Task(
            machine=self.machine,
            model=model,
            prefiller=self.prefiller,
            context=self.context,
            kv_type=request.kv_type,
            slots=request.slots,
            carve_out=request.carve_out,
            measured=measured,
        )

    # --- may there be a prefiller at all? ----------------------------------------------------

    def _usable(self, prefiller: PrefillerFacts | None) -> PrefillerFacts | None:
        """The prefiller to plan with; None, with the reason, where none may be used."""
        asked = self.request.mode in ("resident", "odp")
        if self.request.mode in ("decoder", "autocast"):
            return None
        if prefiller is None:
            assumed = assumed_prefiller(self.model)
            if not asked:
                self._because("plan.no_prefiller", gib=assumed.nbytes / GIB)
                return None
            self._warn("plan.prefiller_assumed")
            prefiller = assumed
        if self.model.experts:
            self._warn("plan.mixture_of_experts", experts=self.model.experts)
            if not asked:
                return None
        if not prefiller.matched:
            forced = self.request.force_pairing and prefiller.fits
            reasons = "; ".join(prefiller.reasons) or "nothing says so"
            code = "plan.pairing_forced" if forced else "plan.pairing_mismatch"
            if not prefiller.fits:
                code = "plan.pairing_impossible"
            self._warn(code, reasons=reasons)
            if not forced:
                return None
        if not self.model.quality_gain:
            self._warn("plan.no_quality_gain", bits=self.model.bits)
        return prefiller

    # --- the layouts -------------------------------------------------------------------------

    def _widths(self) -> tuple[int, ...]:
        if self.request.micro_batch:
            return (min(self.request.micro_batch, self.context),)
        return tuple(dict.fromkeys(min(width, self.context) for width in MICRO_BATCHES))

    def _splits(self) -> Sequence[int]:
        """Numbers of decoder blocks in the memory that computes."""
        count = len(self.model.blocks)
        if self.machine.host is None:
            return (count,)
        if self.request.decoder_device_blocks is not None:
            return (min(self.request.decoder_device_blocks, count),)
        return range(count + 1)

    def _layouts(self, *, with_prefiller: bool) -> Iterator[Layout]:
        count = len(self.model.blocks)
        wanted = self.request.device_blocks
        # Who asks for streaming wants it to take no memory, unless told how much.
        most = 0 if self.request.mode == "odp" else count
        device_blocks = most if wanted is None else wanted
        host_blocks = most if self.request.host_blocks is None else self.request.host_blocks
        if self.request.mode == "odp":
            device_blocks = min(device_blocks, count - 1)  # all of them would be another path
        for width in self._widths():
            for near_blocks in self._splits():
                layout = Layout(self.task, width, near_blocks, with_prefiller)
                if not with_prefiller:
                    yield layout
                elif self.request.mode == "resident":
                    yield Layout(self.task, width, near_blocks, True, resident=count)
                elif layout.excess == 0 or len(self._splits()) == 1:
                    yield filled(layout, device_blocks, host_blocks)

    def _best(self, layouts: Iterator[Layout], *, fastest: bool) -> _Choice | None:
        """The fitting layout with the fastest turns."""
        best: _Choice | None = None
        for layout in layouts:
            if layout.excess:
                continue
            turn_s = self._turn_s(layout, fastest=fastest)
            if best is None or turn_s < best.turn_s:
                best = _Choice(layout, turn_s)
        return best

    def _least(self, layouts: Iterator[Layout], *, fastest: bool) -> _Choice:
        """The layout that misses the least memory: for when none fits."""
        found = min(layouts, key=lambda layout: layout.excess)
        return _Choice(found, self._turn_s(found, fastest=fastest))

    def _turn_s(self, layout: Layout, *, fastest: bool) -> float:
        """The geometric mean over TURN_PROMPTS. With `fastest`, each prompt takes the faster path;
        else the prefiller's, if the layout has one."""
        prompts = [tokens for tokens in TURN_PROMPTS if tokens <= self.context] or [self.context]
        answer_s = ANSWER_TOKENS * layout.decode_s
        decoder = layout.decoder_cost
        prefill = layout.prefill_cost if layout.with_prefiller else None
        total = 0.0
        for tokens in prompts:
            read_s = math.inf if prefill and not fastest else prompt_seconds(decoder, tokens)
            if prefill:
                read_s = min(read_s, prompt_seconds(prefill, tokens) + layout.restore_s)
            total += math.log(read_s + answer_s)
        return math.exp(total / len(prompts))

    # --- the decision ------------------------------------------------------------------------

    def plan(self) -> Plan:
        mode = self.request.mode
        better = self.request.policy == "best_answers" and self.model.quality_gain
        choice: _Choice | None = None
        if self.prefiller is not None:
            forced = mode != "auto"
            layouts = list(self._layouts(with_prefiller=True))
            choice = self._best(iter(layouts), fastest=not (better or forced))
            if choice is None and forced and layouts:
                choice = self._least(iter(layouts), fastest=False)
            if choice and not forced and not better:
                choice = self._if_worth_it(choice)
        if choice is None:
            choice = self._best(self._layouts(with_prefiller=False), fastest=True)
        if choice is None:
            choice = self._least(self._layouts(with_prefiller=False), fastest=True)
        return self._described(choice)

    def _if_worth_it(self, choice: _Choice) -> _Choice | None:
        """Keeps the prefiller if it saves time at some length, by rates that were measured."""
        layout = choice.layout
        if not ever_faster(layout.decoder_cost, layout.prefill_cost, self.context):
            self._because("plan.decoder_is_faster", tokens=self.context)
            return None
        if not self._knows(layout.path):
            self._warn("plan.unproven_path")
            return None
        return choice

    def _knows(self, path: Path) -> bool:
        """Whether `path` is predicted from measured rates."""
        rates = self.machine.rates
        if path == "decoder":
            return "products" not in rates.guessed
        return rates.knows_prefill() and not (path == "odp" and DISK_RATE in rates.guessed)

    # --- the description ---------------------------------------------------------------------

    def _described(self, choice: _Choice) -> Plan:
        layout = choice.layout
        mode: Path = "autocast" if self.request.mode == "autocast" else layout.path
        forecasts = tuple(self._forecasts(layout))
        costs: dict[Path, PathCost] = {forecast.path: forecast.cost for forecast in forecasts}
        found = crossover(costs["decoder"], costs["odp"]) if "odp" in costs else None
        self._explain(layout, mode, costs)
        return Plan(
            decoder=self.model.name,
            prefiller=self.prefiller.name if self.prefiller and layout.with_prefiller else None,
            device=self.machine.name,
            context=self.context,
            kv_type=self.request.kv_type,
            mode=mode,
            overridden=self.request.mode != "auto",
            fits=layout.excess == 0,
            blocks=layout.block_count,
            tiers=layout.tiers,
            decoder_device_blocks=layout.near_blocks,
            slots=layout.slots,
            slot_bytes=layout.slot_bytes,
            carve_out=layout.lent_bytes > 0,
            lent_bytes=layout.lent_bytes,
            micro_batch=layout.micro_batch,
            memory=layout.items,
            pools=layout.pools,
            memory_exact=self.task.measured is not None,
            forecasts=forecasts,
            crossover=found,
            decode_tps=1 / layout.decode_s if layout.decode_s else math.inf,
            turn_s=choice.turn_s,
            reasons=tuple(self.reasons),
            warnings=tuple(self.warnings),
        )

    def _forecasts(self, layout: Layout) -> Iterator[Forecast]:
        """Each path beside the layout's decoder: `odp` with the layout's tiers, or what it would
        have were the layout another; `resident` as if there were room."""
        fits = layout.excess == 0
        yield self._forecast("decoder", fits, layout.decoder_cost)
        if self.prefiller is not None:
            count = layout.block_count
            whole = Layout(self.task, layout.micro_batch, layout.near_blocks, True, resident=count)
            yield self._forecast("resident", whole.excess == 0, whole.prefill_cost)
            streamed = layout
            if layout.path != "odp":
                streamed = Layout(self.task, layout.micro_batch, layout.near_blocks, True)
            yield self._forecast("odp", streamed.excess == 0, streamed.prefill_cost)
        if self.request.mode == "autocast":
            yield self._forecast("autocast", fits, layout.autocast_cost)

    def _forecast(self, path: Path, fits: bool, cost: PathCost) -> Forecast:
        times = tuple(prompt_seconds(cost, tokens) for tokens in PROMPT_LENGTHS)
        return Forecast(path=path, fits=fits, measured=self._knows(path), cost=cost, ttft_s=times)

    def _explain(self, layout: Layout, mode: Path, costs: dict[Path, PathCost]) -> None:
        if self.request.mode != "auto":
            self._because("plan.you_chose", mode=mode)
        if layout.with_prefiller:
            self._explain_prefiller(layout, costs["decoder"])
            self._because("plan.micro_batch", tokens=layout.micro_batch)
        self._warn_of_memory(layout)
        self._warn_of_rates(layout)
        trained = self.model.trained_context
        if trained and self.context > trained:
            self._warn("plan.context_beyond_training", context=self.context, trained=trained)

    def _explain_prefiller(self, layout: Layout, decoder: PathCost) -> None:
        assert self.prefiller is not None
        gib = self.prefiller.nbytes / GIB
        tiers = layout.tiers
        disk = tiers.count("disk")
        rates = self.machine.rates
        pass_s = layout.disk_bytes / rates.disk_gbps / 1e9
        if not layout.streamed:
            self._because("plan.resident_fits", gib=gib)
        elif disk == layout.block_count:
            self._because("plan.all_streamed", blocks=disk, gib=gib, seconds=pass_s)
        else:
            self._because(
                "plan.mixed_tiers" if self.machine.host else "plan.partly_streamed",
                blocks=layout.block_count,
                device=tiers.count("device"),
                host=tiers.count("host"),
                disk=disk,
                name=_shown(self.machine.name),
            )
        if layout.lent_bytes:
            self._because("plan.carve_out", slots=layout.slots, gib=layout.lent_bytes / GIB)
        faster = crossover(decoder, layout.prefill_cost, self.context)
        if self.request.policy == "best_answers" and self.model.quality_gain:
            self._because("plan.best_answers", bits=self.model.bits)
            if not ever_faster(decoder, layout.prefill_cost, self.context):
                self._warn("plan.always_slower_than_decoder")
            elif faster is None or faster > PROMPT_LENGTHS[0]:
                self._warn("plan.slower_than_decoder", tokens=faster or self.context)
        if faster is not None and faster > PROMPT_LENGTHS[0]:
            self._because("plan.faster_from", tokens=faster)
        elif faster is not None:
            self._because("plan.always_faster")
        if disk and pass_s > _SLOW_PASS_S:
            self._warn("plan.slow_disk", seconds=pass_s, gbps=rates.disk_gbps)

    def _warn_of_memory(self, layout: Layout) -> None:
        for room in layout.rooms:
            needed = layout.planned(room)
            if needed > room.usable:
                self._warn(
                    "plan.does_not_fit",
                    needed_gib=(needed + room.margin) / GIB,
                    free_gib=room.free / GIB,
                    name=_shown(room.device),
                )
        if layout.near_blocks < layout.block_count:
            self._warn(
                "plan.decoder_partly_on_host",
                device=layout.near_blocks,
                blocks=layout.block_count,
                name=_shown(self.machine.name),
            )
        near = self.machine.near
        in_use = near.total - near.free
        wanted = self.request.mode == "odp"  # blocks are streamed whatever room there is
        streamed = layout.streamed and not wanted
        tight = layout.near_blocks < layout.block_count or streamed or layout.excess
        if in_use >= _MUCH_IN_USE and tight:
            self._warn("plan.memory_in_use", gib=in_use / GIB, name=_shown(near.device))

    def _warn_of_rates(self, layout: Layout) -> None:
        rates = self.machine.rates
        guessed = sorted(rates.guessed - {DISK_RATE})
        if not layout.with_prefiller and "NVFP4 products" in guessed:
            guessed.remove("NVFP4 products")
        if guessed:
            self._warn("plan.rates_guessed", rates=", ".join(guessed))
        if DISK_RATE in rates.guessed and layout.disk_bytes:
            self._warn("plan.disk_unmeasured", gbps=rates.disk_gbps)

    def _because(self, code: str, **data: object) -> None:
        self.reasons.append(remark(code, **data))

    def _warn(self, code: str, **data: object) -> None:
        self.warnings.append(remark(code, **data))


def _shown(device: str) -> str:
    return "the host" if device == CPU else device
