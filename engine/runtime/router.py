"""Chooses the path of each prompt for one loaded pair, and learns from how long it took."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path as FilePath

import psutil

from engine.api.hardware import Disk, Host, Profile, Rates
from engine.api.plan import Plan, Tier
from engine.api.turn import DEFAULT_POLICY, Path, PathSetting, Policy
from engine.bench.disk import measure_disk
from engine.errors import TwofoldError
from engine.gguf.identity import decoder_hash
from engine.gguf.splits import GgufModel
from engine.kernels.check import multiplier
from engine.planner.facts import ModelFacts, PrefillerFacts, block_bytes, model_facts
from engine.planner.layout import spread_order
from engine.planner.memory import margin
from engine.planner.plan import make_plan
from engine.planner.rates import CPU, PREFILL_TYPE
from engine.planner.request import PlanRequest
from engine.prefiller.formats import Prefiller
from engine.probe.products import measure_products
from engine.runtime.gpu_layers import device_rooms
from engine.runtime.learned import Learned, Sample, corrected, with_products, with_sample
from engine.runtime.rate_store import RateStore
from engine.runtime.routing import Route, Situation, Way, route
from engine.runtime.settings import LoadSettings

# Types that a decoder is mostly made of; the rest hardly counts.
_TYPES_MEASURED = 3
_DISK_SECONDS = 0.3
_ENOUGH = 1 << 50  # bytes: for a forecast of a split that is there already
_SHARES = 8  # so many kinds of mixed tiers are told apart by what they teach


class Router:
    """Belongs to the model's thread.

    Forecasts start from the planner's formula with the speed of this machine's products and disk,
    measured once, the first time that they matter (about a second); each run then corrects them.
    How much of the prefiller stays in memory on "auto" is the planner's answer, too: everything,
    or as many blocks as there is room for when they are loaded. Without a `store`, what is learned
    lasts as long as the router.
    """

    def __init__(
        self,
        decoder: GgufModel,
        settings: LoadSettings,
        *,
        context: int,
        micro_batch: int,
        min_prefill_tokens: int,
        near_blocks: int = 0,
        store: RateStore | None = None,
    ) -> None:
        """`near_blocks`: of the decoder's last blocks, those on devices other than the CPU."""
        self._near_blocks = near_blocks
        self._decoder = decoder
        self._settings = settings
        self._context, self._micro_batch = context, micro_batch
        self._least = min_prefill_tokens
        self._store = store
        self._own = Learned()
        self._facts: ModelFacts = model_facts(decoder)
        self._prefiller: Prefiller | None = None
        self._pair = PrefillerFacts(name="", block_bytes=(), matched=True)
        self._key = ""
        self._rates: Rates | None = None
        self._disk_gbps: float | None = None
        self._plans: dict[int, Plan] = {}
        self._waited_s = 0.0  # for streaming, beyond what blocks in memory would have taken

    def choose(
        self,
        setting: PathSetting,
        tokens: int,
        *,
        cached: int = 0,
        prefiller: Prefiller | None,
        attached: int | None,
        loaded: int = 0,
        policy: Policy = DEFAULT_POLICY,
        autocast_share: float = 0.0,
    ) -> Route:
        """The path for `tokens` after `cached` ones. `attached`: how many of the prefiller's
        blocks are in memory now, None if it is not attached; `loaded`: bytes of memory that the
        model holds without them.

        Raises NoPrefiller or PathUnavailable.
        """
        decoder_s: float | None = None
        ways: list[Way] = []
        if setting == "auto" and prefiller is not None and tokens >= self._least:
            self._adopt(prefiller)
            self._measure(prefiller)
            decoder_s = self._seconds("decoder", 0, tokens, cached)[0]
            ways = self._ways(tokens, cached, attached, loaded)
        situation = Situation(
            tokens=tokens,
            blocks=self.blocks if prefiller is not None else None,
            min_prefill_tokens=self._least,
            quality_gain=self._facts.quality_gain,
            decoder_s=decoder_s,
            ways=ways,
            autocast_share=autocast_share,
        )
        chosen = route(setting, situation, policy)
        if chosen.kept:
            self._waited_s = 0.0
        elif chosen.path == "odp" and len(ways) > 1:
            streamed, kept = (self._seconds(way.path, way.kept, tokens, cached)[0] for way in ways)
            self._waited_s += max(0.0, streamed - kept)
        return chosen

    def learn(
        self,
        path: Path,
        kept: int,
        tokens: int,
        cached: int,
        seconds: float,
        prefiller: Prefiller | None,
    ) -> None:
        """A prompt of `tokens` was read whole in `seconds`, its weights attached before and
        `kept` of the prefiller's blocks in memory."""
        if prefiller is None or tokens < self._least or seconds <= 0:
            return
        self._adopt(prefiller)
        sample = Sample(tokens=tokens, cached=cached, seconds=seconds, time=time.time())
        key = self._key_of(path, kept)
        self._update(lambda learned: with_sample(learned, key, path, sample))

    def tiers(self, kept: int) -> tuple[Tier, ...]:
        """Where each block lives when `kept` of them stay in memory: they are spread over the
        model, so that the disk never waits for long."""
        order = spread_order(self.blocks)
        device, host = set(order[:kept]), set(order[kept : kept + self._settings.host_blocks])
        return tuple(
            "device" if block in device else "host" if block in host else "disk"
            for block in range(self.blocks)
        )

    @property
    def blocks(self) -> int:
        return len(self._facts.blocks)

    # --- forecasts ---------------------------------------------------------------------------

    def _ways(self, tokens: int, cached: int, attached: int | None, loaded: int) -> list[Way]:
        """Streaming every block, and keeping as many in memory as have room. Blocks that are there
        already stay: nothing is gained by reading them again."""
        splits = [attached] if attached else sorted({0, self._room(loaded)})
        ways: list[Way] = []
        for kept in splits:
            path: Path = "resident" if kept == self.blocks else "odp"
            seconds, proven = self._seconds(path, kept, tokens, cached)
            missing = kept - (attached or 0)
            load_s = 0.0
            if missing and self._disk_gbps:
                load_s = self._pair.nbytes * missing / self.blocks / self._disk_gbps / 1e9
            rank_s = seconds + max(0.0, load_s - self._waited_s)
            ways.append(Way(path, kept, seconds + load_s, rank_s, proven))
        return ways

    def _room(self, loaded: int) -> int:
        """How many of the prefiller's blocks fit into the memory that is free now."""
        memory = psutil.virtual_memory()
        if self._near_blocks:
            return self._device_room(memory.available - margin(memory.available, memory.total))
        found = self._plan(self.blocks, memory.total, memory.available, loaded)
        whole = found.forecast("resident")
        if whole is not None and whole.fits:
            return self.blocks
        return found.tier_count("device") if found.fits else 0

    def _device_room(self, host: int) -> int:
        """As many as fit beside the decoder's: each lives where the decoder has that block."""
        sizes, near = self._pair.block_bytes, self.blocks - self._near_blocks
        device = sum(room.usable for room in device_rooms())
        if not self._settings.carve_out:
            device -= self._settings.slots * max(sizes)
        for kept, block in enumerate(spread_order(self.blocks)):
            if block >= near:
                device -= sizes[block]
            else:
                host -= sizes[block]
            if device < 0 or host < 0:
                return kept
        return self.blocks

    def _seconds(self, path: Path, kept: int, tokens: int, cached: int) -> tuple[float, bool]:
        """A path's forecast, corrected by what earlier runs took, and whether it is proven."""
        if kept not in self._plans:
            self._plans[kept] = self._plan(kept, _ENOUGH, _ENOUGH)
        found = self._plans[kept].forecast(path)
        assert found is not None  # the planner forecasts all three beside each other
        pair = self._learned.pairs.get(self._key_of(path, kept))
        samples = pair.samples.get(path, ()) if pair else ()
        seconds = corrected(found.cost, samples, tokens, cached)
        return seconds, found.measured or bool(samples)

    def _plan(self, kept: int, memory: int, free: int, loaded: int = 0) -> Plan:
        """The plan with up to `kept` blocks in memory; `loaded` bytes of it are the model's."""
        threads = self._settings.threads
        profile = Profile(
            host=Host(memory_total=memory, memory_free=free, cores=threads),
            disks=(Disk(path="/", read_gbps=self._disk_gbps),),
            rates=self._rates or Rates(device=CPU),
        )
        request = PlanRequest(
            mode="odp",
            context=self._context,
            micro_batch=self._micro_batch,
            slots=self._settings.slots,
            carve_out=self._settings.carve_out,
            device_blocks=kept,
            replaced={CPU: loaded},
        )
        return make_plan(profile, self._facts, self._pair, request)

    def _adopt(self, prefiller: Prefiller) -> None:
        if prefiller is self._prefiller:
            return
        self._prefiller = prefiller
        self._rates = None
        self._plans = {}
        sizes = block_bytes(prefiller, self._facts)
        self._pair = PrefillerFacts(name=prefiller.path.name, block_bytes=sizes, matched=True)
        identity = decoder_hash(self._decoder)[:16]
        self._key = (
            f"{identity} {prefiller.path.name} {prefiller.nbytes} {CPU} "
            f"{multiplier()} {self._settings.threads} {self._micro_batch}"
        )

    def _key_of(self, path: Path, kept: int) -> str:
        """Runs with much and with little of the prefiller in memory say little of each other."""
        mixed = path == "odp" and kept
        return f"{self._key} {kept * _SHARES // self.blocks}/{_SHARES}" if mixed else self._key

    def _measure(self, prefiller: Prefiller) -> None:
        """The speed of the prefiller's disk and of this machine's products, once for each load."""
        if self._rates is not None:
            return
        settings = self._settings
        largest = max(prefiller.files, key=_size)
        try:
            self._disk_gbps = measure_disk(
                largest, settings.request_bytes, settings.in_flight, _DISK_SECONDS
            ).gbps
        except (TwofoldError, OSError, ValueError):
            self._disk_gbps = None  # whoever reads the prefiller next will say why
        self._rates = Rates(device=CPU, products_tflops=self._products())

    def _products(self) -> dict[str, float]:
        """Rates of the decoder's main types and the prefiller's, measured if not yet known."""
        weights = self._facts.products
        main = sorted(weights, key=lambda name: weights[name], reverse=True)[:_TYPES_MEASURED]
        wanted = [*main, PREFILL_TYPE]
        device = f"{CPU} {multiplier()} {self._settings.threads}"
        known = self._learned.products.get(device, {})
        missing = [name for name in wanted if name not in known]
        if missing:
            measured = measure_products(missing, threads=self._settings.threads).tflops
            known = self._update(
                lambda learned: with_products(learned, device, measured)
            ).products.get(device, {})
        return {name: known[name] for name in wanted if name in known}

    # --- what is learned ---------------------------------------------------------------------

    @property
    def _learned(self) -> Learned:
        return self._store.learned if self._store else self._own

    def _update(self, change: Callable[[Learned], Learned]) -> Learned:
        if self._store:
            return self._store.update(change)
        self._own = change(self._own)
        return self._own


def _size(path: FilePath) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
