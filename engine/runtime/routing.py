"""Which path a prompt takes, and why, in words. A pure function; `router` gathers what it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.api.turn import DEFAULT_POLICY, Path, PathSetting, Policy
from engine.errors import TwofoldError

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
class Route:
    """`expected_s`: the forecast of the time to the first token, where there is one."""

    path: Path
    reason: str
    expected_s: float | None = None


@dataclass(frozen=True, slots=True)
class Situation:
    """What a route depends on; lengths in tokens.

    `resident_possible`: the prefiller is in memory or fits into what is free. `quality_gain`:
    the decoder has so few bits that a prefiller makes its answers better. `seconds`: forecasts
    by path; `proven`: those that rest on measurements. `autocast_share`: of the decoder's weights
    that autocast multiplies, each measured to be faster so, 0 to 1.
    """

    tokens: int
    has_prefiller: bool
    min_prefill_tokens: int
    resident_possible: bool = False
    quality_gain: bool = False
    seconds: Mapping[Path, float] = field(default_factory=dict[Path, float])
    proven: frozenset[Path] = frozenset()
    autocast_share: float = 0.0


def route(setting: PathSetting, situation: Situation, policy: Policy = DEFAULT_POLICY) -> Route:
    """Raises NoPrefiller or PathUnavailable for a path that cannot be taken at all."""
    if setting == "decoder":
        return _route("decoder", "you chose the decoder's own weights", situation)
    if setting == "autocast" and situation.tokens >= situation.min_prefill_tokens:
        if situation.autocast_share <= 0:
            raise PathUnavailable(path=setting)
        return _route("autocast", "you chose autocast", situation)
    if not situation.has_prefiller and setting not in ("auto", "autocast"):
        raise NoPrefiller(path=setting)
    if not situation.has_prefiller and setting == "auto":
        if situation.autocast_share >= LEAST_AUTOCAST:
            reason = (
                "no prefiller is attached, and multiplying the decoder's weights as BF16 is "
                "faster here"
            )
            return _route("autocast", reason, situation)
        return _route("decoder", "no prefiller is attached", situation)
    if situation.tokens < situation.min_prefill_tokens:
        few = (
            f"{situation.tokens} tokens are too few for prefill weights "
            f"(from {situation.min_prefill_tokens})"
        )
        return _route("decoder", few, situation)
    if setting != "auto":
        return _route(setting, f"you chose {setting}", situation)
    if policy == "best_answers" and situation.quality_gain:
        return _best_answers(situation)
    return _fastest(situation)


def _best_answers(situation: Situation) -> Route:
    seconds = situation.seconds
    path: Path = "resident" if situation.resident_possible else "odp"
    if path == "resident" and "odp" in seconds and "resident" in seconds:
        # Loading everything first may cost more than streaming it past this prompt.
        path = "resident" if seconds["resident"] <= seconds["odp"] else "odp"
    return _route(
        path, "the prefiller makes this decoder's answers better, and you chose those", situation
    )


def _fastest(situation: Situation) -> Route:
    seconds = situation.seconds
    decoder = seconds.get("decoder")
    paths: list[Path] = ["resident", "odp"] if situation.resident_possible else ["odp"]
    known: list[Path] = [name for name in paths if name in seconds and name in situation.proven]
    if decoder is None or not known:
        return _route(
            "decoder", "the prefiller's speed on this machine is not known yet", situation
        )
    best: Path = min(known, key=seconds.__getitem__)
    if seconds[best] > decoder * (1 - LEAST_GAIN):
        reason = (
            f"{situation.tokens} tokens are expected to take {decoder:.1f} s this way and "
            f"{seconds[best]:.1f} s with the prefiller"
        )
        return _route("decoder", reason, situation)
    reason = (
        f"{situation.tokens} tokens are expected to take {seconds[best]:.1f} s this way and "
        f"{decoder:.1f} s with the decoder's own weights"
    )
    return _route(best, reason, situation)


def _route(path: Path, reason: str, situation: Situation) -> Route:
    return Route(path, reason, situation.seconds.get(path))
