"""Which path a prompt takes, and why, in words."""

from __future__ import annotations

from dataclasses import dataclass

from engine.api.turn import Path, PathSetting
from engine.errors import TwofoldError


class NoPrefiller(TwofoldError):
    """A path that needs a prefiller was asked for without one. Data: `path`."""

    code = "path.no_prefiller"


class PathUnavailable(TwofoldError):
    """A path that this build cannot take. Data: `path`."""

    code = "path.unavailable"


@dataclass(frozen=True, slots=True)
class Route:
    path: Path
    reason: str


@dataclass(frozen=True, slots=True)
class Situation:
    """What a route depends on. Sizes in bytes, lengths in tokens."""

    tokens: int
    has_prefiller: bool
    min_prefill_tokens: int
    prefiller_bytes: int = 0
    resident_now: bool = False
    memory_free: int = 0


# Resident weights must leave this much of the free memory to everything else.
MEMORY_MARGIN = 2 << 30


def route(setting: PathSetting, situation: Situation) -> Route:
    """Raises NoPrefiller or PathUnavailable for a path that cannot be taken at all."""
    if setting == "autocast":
        raise PathUnavailable(path=setting)
    if setting == "decoder":
        return Route("decoder", "you chose the decoder's own weights")
    if not situation.has_prefiller:
        if setting != "auto":
            raise NoPrefiller(path=setting)
        return Route("decoder", "no prefiller is attached")
    if situation.tokens < situation.min_prefill_tokens:
        return Route(
            "decoder",
            f"{situation.tokens} tokens are too few for prefill weights "
            f"(from {situation.min_prefill_tokens})",
        )
    if setting != "auto":
        return Route(setting, f"you chose {setting}")
    if situation.resident_now:
        return Route("resident", "the prefiller is in memory")
    if situation.prefiller_bytes + MEMORY_MARGIN <= situation.memory_free:
        return Route("resident", "the prefiller fits into free memory")
    return Route("odp", "the prefiller does not fit into free memory and is streamed")
