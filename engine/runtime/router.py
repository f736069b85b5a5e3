"""Chooses the path of each prompt for one loaded pair, and learns from how long it took."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path as FilePath

import psutil

from engine.api.hardware import Disk, Host, Profile, Rates
from engine.api.plan import Forecast
from engine.api.turn import DEFAULT_POLICY, Path, PathSetting, Policy
from engine.bench.disk import measure_disk
from engine.errors import TwofoldError
from engine.gguf.identity import decoder_hash
from engine.gguf.splits import GgufModel
from engine.planner.facts import ModelFacts, PrefillerFacts, model_facts
from engine.planner.plan import make_plan
from engine.planner.rates import CPU, PREFILL_TYPE
from engine.planner.request import PlanRequest
from engine.prefiller.formats import Prefiller
from engine.probe.products import measure_products
from engine.runtime.learned import Learned, Sample, corrected, with_products, with_sample
from engine.runtime.rate_store import RateStore
from engine.runtime.routing import Route, Situation, route
from engine.runtime.settings import LoadSettings

# Resident weights must leave this much of the free memory to everything else.
MEMORY_MARGIN = 2 << 30
# Types that a decoder is mostly made of; the rest hardly counts.
_TYPES_MEASURED = 3
_DISK_SECONDS = 0.3


class Router:
    """Belongs to the model's thread.

    Forecasts start from the planner's formula with the speed of this machine's products and disk,
    measured once, the first time that they matter (about a second); each run then corrects them.
    Without a `store`, what is learned lasts as long as the router.
    """

    def __init__(
        self,
        decoder: GgufModel,
        settings: LoadSettings,
        *,
        context: int,
        micro_batch: int,
        min_prefill_tokens: int,
        store: RateStore | None = None,
    ) -> None:
        self._decoder = decoder
        self._settings = settings
        self._context, self._micro_batch = context, micro_batch
        self._least = min_prefill_tokens
        self._store = store
        self._own = Learned()
        self._facts: ModelFacts = model_facts(decoder)
        self._prefiller: Prefiller | None = None
        self._key = ""
        self._forecasts: dict[Path, Forecast] = {}
        self._disk_gbps: float | None = None

    def choose(
        self,
        setting: PathSetting,
        tokens: int,
        *,
        cached: int = 0,
        prefiller: Prefiller | None,
        attached: Path | None,
        policy: Policy = DEFAULT_POLICY,
        autocast_share: float = 0.0,
    ) -> Route:
        """The path for `tokens` after `cached` ones; `attached` is how the prefiller is now.

        Raises NoPrefiller or PathUnavailable.
        """
        seconds: dict[Path, float] = {}
        proven: frozenset[Path] = frozenset()
        possible = attached == "resident"
        if setting == "auto" and prefiller is not None and tokens >= self._least:
            free = psutil.virtual_memory().available
            possible = possible or prefiller.nbytes + MEMORY_MARGIN <= free
            seconds = self._seconds(prefiller, tokens, cached, attached)
            samples = self._samples()
            proven = frozenset(
                path
                for path, forecast in self._forecasts.items()
                if forecast.measured or samples.get(path)
            )
        situation = Situation(
            tokens=tokens,
            has_prefiller=prefiller is not None,
            min_prefill_tokens=self._least,
            resident_possible=possible,
            quality_gain=self._facts.quality_gain,
            seconds=seconds,
            proven=proven,
            autocast_share=autocast_share,
        )
        return route(setting, situation, policy)

    def learn(
        self, path: Path, tokens: int, cached: int, seconds: float, prefiller: Prefiller | None
    ) -> None:
        """A prompt of `tokens` was read whole in `seconds`, its weights attached before."""
        if prefiller is None or tokens < self._least or seconds <= 0:
            return
        self._adopt(prefiller)
        sample = Sample(tokens=tokens, cached=cached, seconds=seconds, time=time.time())
        self._update(lambda learned: with_sample(learned, self._key, path, sample))

    # --- forecasts ---------------------------------------------------------------------------

    def _seconds(
        self, prefiller: Prefiller, tokens: int, cached: int, attached: Path | None
    ) -> dict[Path, float]:
        self._adopt(prefiller)
        if not self._forecasts:
            self._forecasts = self._forecast(prefiller)
        samples = self._samples()
        found: dict[Path, float] = {
            path: corrected(forecast.cost, samples.get(path, ()), tokens, cached)
            for path, forecast in self._forecasts.items()
        }
        if attached != "resident" and "resident" in found and self._disk_gbps:
            found["resident"] += prefiller.nbytes / self._disk_gbps / 1e9  # it has to come first
        return found

    def _adopt(self, prefiller: Prefiller) -> None:
        if prefiller is self._prefiller:
            return
        self._prefiller = prefiller
        self._forecasts = {}
        identity = decoder_hash(self._decoder)[:16]
        self._key = (
            f"{identity} {prefiller.path.name} {prefiller.nbytes} {CPU} "
            f"{self._settings.threads} {self._micro_batch}"
        )

    def _forecast(self, prefiller: Prefiller) -> dict[Path, Forecast]:
        """Each path's cost on this machine, streaming everything on `odp`."""
        sizes = [0] * len(self._facts.blocks)
        for tensor in prefiller.tensors:
            if tensor.block < len(sizes):
                sizes[tensor.block] += tensor.nbytes
        plan = make_plan(
            self._machine(prefiller),
            self._facts,
            PrefillerFacts(name=prefiller.path.name, block_bytes=tuple(sizes), matched=True),
            PlanRequest(
                mode="odp",
                context=self._context,
                micro_batch=self._micro_batch,
                slots=self._settings.slots,
                carve_out=self._settings.carve_out,
                device_blocks=0,
            ),
        )
        return {forecast.path: forecast for forecast in plan.forecasts}

    def _machine(self, prefiller: Prefiller) -> Profile:
        memory = psutil.virtual_memory()
        largest = max(prefiller.files, key=_size)
        try:
            settings = self._settings
            self._disk_gbps = measure_disk(
                largest, settings.request_bytes, settings.in_flight, _DISK_SECONDS
            ).gbps
        except (TwofoldError, OSError, ValueError):
            self._disk_gbps = None  # whoever reads the prefiller next will say why
        return Profile(
            host=Host(
                memory_total=memory.total,
                memory_free=memory.available,
                cores=self._settings.threads,
            ),
            disks=(Disk(path="/", read_gbps=self._disk_gbps),),
            rates=Rates(device=CPU, products_tflops=self._products()),
        )

    def _products(self) -> dict[str, float]:
        """Rates of the decoder's main types and the prefiller's, measured if not yet known."""
        weights = self._facts.products
        main = sorted(weights, key=lambda name: weights[name], reverse=True)[:_TYPES_MEASURED]
        wanted = [*main, PREFILL_TYPE]
        device = f"{CPU} {self._settings.threads}"
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

    def _samples(self) -> dict[Path, tuple[Sample, ...]]:
        pair = self._learned.pairs.get(self._key)
        return pair.samples if pair else {}

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
