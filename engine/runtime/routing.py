"""Which path a prompt takes, and why. A pure function; `router` gathers what it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.api.sentences import fill
from engine.api.turn import DEFAULT_POLICY, Path, PathSetting, Policy, Reason
from engine.errors import TwofoldError
from engine.runtime.words import SENTENCES

# The path autocast is worth naming when it multiplies this share of a prompt's weights.
LEAST_AUTOCAST = 0.25
# A forecast has to promise this much before it is worth leaving the decoder's own weights.
LEAST_GAIN = 0.05


class NoPrefiller(TwofoldError):
    """A path that needs a prefiller was asked for without one. Data: `path`."""

    code = "path.no_prefiller"


class PathUnavailable(TwofoldError):
    """A path that this build cannot take. Data: `path`."""

    code = "path.unavailable"


@dataclass(frozen=True, slots=True)
class Way:
    """One way to read a prompt with the prefiller, `kept` of whose blocks stay in memory.

    `seconds`: the forecast of the time to the first token, with the loading of blocks that are to
    stay. `proven`: it rests on measurements. `rank_s` is what ways are compared by: the same, but
    loading counts only as far as streaming has not cost as much by now, since it is done once.
    """

    path: Path
    kept: int
    seconds: float
    rank_s: float
    proven: bool


@dataclass(frozen=True, slots=True)
class Route:
    """`kept` as for Way; `expected_s`: the forecast, where there is one."""

    path: Path
    reason: Reason
    kept: int = 0
    expected_s: float | None = None


@dataclass(frozen=True, slots=True)
class Situation:
    """What a route depends on; lengths in tokens.

    `blocks`: of the prefiller, None without one. `quality_gain`: the decoder has so few bits that
    a prefiller makes its answers better. `decoder_s`: the forecast for the decoder's own weights,
    `ways`: what else there is. `autocast_share`: of the decoder's weights that autocast
    multiplies, each measured to be faster so, 0 to 1.
    """

    tokens: int
    blocks: int | None
    min_prefill_tokens: int
    quality_gain: bool = False
    decoder_s: float | None = None
    ways: Sequence[Way] = ()
    autocast_share: float = 0.0


def route(setting: PathSetting, situation: Situation, policy: Policy = DEFAULT_POLICY) -> Route:
    """Raises NoPrefiller or PathUnavailable for a path that cannot be taken at all."""
    tokens, least = situation.tokens, situation.min_prefill_tokens
    if setting == "decoder":
        return Route("decoder", reason("route.chosen", path=setting))
    if setting == "autocast" and tokens >= least:
        if situation.autocast_share <= 0:
            raise PathUnavailable(path=setting)
        return Route("autocast", reason("route.chosen", path=setting))
    if situation.blocks is None and setting not in ("auto", "autocast"):
        raise NoPrefiller(path=setting)
    if situation.blocks is None and setting == "auto":
        if situation.autocast_share >= LEAST_AUTOCAST:
            return Route("autocast", reason("route.autocast_faster"))
        return Route("decoder", reason("route.no_prefiller"))
    if tokens < least:
        return Route("decoder", reason("route.too_short", tokens=tokens, least=least))
    if setting != "auto":
        kept = situation.blocks if setting == "resident" else None
        return Route(setting, reason("route.chosen", path=setting), kept or 0)
    if policy == "best_answers" and situation.quality_gain:
        best = min(situation.ways, key=lambda way: way.rank_s)
        return Route(best.path, reason("route.best_answers"), best.kept, best.seconds)
    return _fastest(situation)


def _fastest(situation: Situation) -> Route:
    tokens, decoder_s = situation.tokens, situation.decoder_s
    known = [way for way in situation.ways if way.proven]
    if decoder_s is None or not known:
        return Route("decoder", reason("route.speed_unknown"), expected_s=decoder_s)
    faster = [way for way in known if way.seconds <= decoder_s * (1 - LEAST_GAIN)]
    if not faster:
        least_s = min(way.seconds for way in known)
        why = reason("route.decoder_faster", tokens=tokens, seconds=decoder_s, other_s=least_s)
        return Route("decoder", why, expected_s=decoder_s)
    best = min(faster, key=lambda way: way.rank_s)
    why = reason("route.faster", tokens=tokens, seconds=best.seconds, decoder_s=decoder_s)
    return Route(best.path, why, best.kept, best.seconds)


def reason(code: str, **data: Any) -> Reason:
    return Reason(code=code, sentence=fill(SENTENCES[code], data), data=data)
