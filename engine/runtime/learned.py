"""What real runs taught about the paths of one pair: how they correct forecasts.

Pure functions over plain data; `rate_store` keeps it on disk.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from pydantic import BaseModel, ConfigDict, Field

from engine.api.plan import PathCost
from engine.api.turn import Path
from engine.planner.times import prompt_seconds

SAMPLES_KEPT = 4  # a path and length, the latest
PAIRS_KEPT = 64
KEPT_SECONDS = 30 * 24 * 3600.0  # machines, drivers and disks change
# A single run may have met a busy machine: it moves the forecast only this far, on a log scale.
FIRST_RUN_WEIGHT = 0.5


class Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Sample(Data):
    """One prompt: `tokens` read after `cached` ones in `seconds`, at `time` (since 1970)."""

    tokens: int = Field(ge=1)
    cached: int = Field(ge=0)
    seconds: float = Field(gt=0, allow_inf_nan=False)
    time: float

    @property
    def bucket(self) -> int:
        """Lengths within a factor of two share one."""
        return self.tokens.bit_length()


class Pair(Data):
    """The samples of one decoder with one prefiller on one machine, by path, oldest first."""

    samples: dict[Path, tuple[Sample, ...]] = {}


class Learned(Data):
    """Everything that is kept: pairs by their key, and measured product rates of the machine by
    type, in 10^12 operations a second, under a name of the device, what multiplies there, and its
    threads."""

    pairs: dict[str, Pair] = {}
    products: dict[str, dict[str, float]] = {}


def with_sample(learned: Learned, key: str, path: Path, sample: Sample) -> Learned:
    """`learned` and one more run; what is old or too much is gone."""
    pair = learned.pairs.get(key, Pair())
    samples: dict[Path, tuple[Sample, ...]] = dict(pair.samples)
    samples[path] = (*samples.get(path, ()), sample)
    for name, found in samples.items():
        samples[name] = _kept(found, sample.time)
    pairs = {**learned.pairs, key: Pair(samples=samples)}
    # The pairs used last stay.
    latest = sorted(pairs, key=lambda name: _latest(pairs[name]))[-PAIRS_KEPT:]
    return learned.model_copy(update={"pairs": {name: pairs[name] for name in latest}})


def with_products(learned: Learned, device: str, rates: Mapping[str, float]) -> Learned:
    known = {**learned.products.get(device, {}), **rates}
    return learned.model_copy(update={"products": {**learned.products, device: known}})


def corrected(cost: PathCost, samples: Iterable[Sample], tokens: int, cached: int = 0) -> float:
    """The forecast for a prompt, corrected by how earlier ones compared with theirs.

    Between lengths that were met the correction is interpolated over the logarithm of the
    length; beyond them, the nearest one's holds.
    """
    forecast = prompt_seconds(cost, tokens, cached)
    known = _corrections(cost, samples)
    if not known:
        return forecast
    place = math.log2(tokens) if tokens > 1 else 0.0
    below = [item for item in known if item[0] <= place]
    above = [item for item in known if item[0] > place]
    if below and above:
        (x0, y0), (x1, y1) = below[-1], above[0]
        correction = y0 + (y1 - y0) * (place - x0) / (x1 - x0)
    else:
        correction = below[-1][1] if below else above[0][1]
    return forecast * math.exp(correction)


def _corrections(cost: PathCost, samples: Iterable[Sample]) -> list[tuple[float, float]]:
    """Logarithms of length and of measured over forecast time, one for each bucket, ascending."""
    buckets: dict[int, list[Sample]] = {}
    for sample in samples:
        buckets.setdefault(sample.bucket, []).append(sample)
    found: list[tuple[float, float]] = []
    for _, group in sorted(buckets.items()):
        places = [math.log2(sample.tokens) for sample in group]
        ratios = [
            math.log(sample.seconds / prompt_seconds(cost, sample.tokens, sample.cached))
            for sample in group
        ]
        # The least: what the machine can do when nothing else keeps it busy.
        weight = FIRST_RUN_WEIGHT if len(group) == 1 else 1.0
        found.append((sum(places) / len(places), weight * min(ratios)))
    return found


def _kept(samples: Iterable[Sample], now: float) -> tuple[Sample, ...]:
    fresh = [sample for sample in samples if now - sample.time <= KEPT_SECONDS]
    counts: dict[int, int] = {}
    kept: list[Sample] = []
    for sample in reversed(fresh):
        counts[sample.bucket] = counts.get(sample.bucket, 0) + 1
        if counts[sample.bucket] <= SAMPLES_KEPT:
            kept.append(sample)
    return tuple(reversed(kept))


def _latest(pair: Pair) -> float:
    return max((found[-1].time for found in pair.samples.values() if found), default=-math.inf)
