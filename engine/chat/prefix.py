"""What of the cache a new prompt can keep, and which state checkpoints are worth keeping."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from engine.api.turn import Path, PathSetting

# Which weights put a run of tokens into the cache. The decoder writes every answer.
Origin = Literal["decoder", "prefiller", "answer"]
ALL_ORIGINS: frozenset[Origin] = frozenset({"decoder", "prefiller", "answer"})


@dataclass(frozen=True)
class Run:
    """Neighbouring cached tokens of one origin."""

    length: int
    origin: Origin


@dataclass(frozen=True)
class Reuse:
    """Keep the first `keep` cached tokens; `from_checkpoint` is set if state must be restored."""

    keep: int
    from_checkpoint: int | None = None


def common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """The number of tokens that both begin with."""
    shorter = min(len(left), len(right))
    if left[:shorter] == right[:shorter]:
        return shorter
    return next(index for index in range(shorter) if left[index] != right[index])


def read_origin(setting: PathSetting, path: Path) -> Origin:
    """The origin of tokens read under `setting` along `path`.

    A user who asks for the prefiller gets some short tails from the decoder; they count as read
    the way that was asked for, or every short question would be read again.
    """
    asked_for = path if setting == "auto" else setting
    return "prefiller" if asked_for in ("resident", "odp") else "decoder"


def accepted_origins(setting: PathSetting) -> frozenset[Origin]:
    """The runs that a prompt read under `setting` may reuse: on `auto` all of them."""
    if setting == "auto":
        return ALL_ORIGINS
    return frozenset({read_origin(setting, setting), "answer"})


def plan_reuse(
    cached: Sequence[int],
    runs: Sequence[Run],
    prompt: Sequence[int],
    *,
    accept: frozenset[Origin] = ALL_ORIGINS,
    can_truncate: bool,
    checkpoints: Sequence[int] = (),
) -> Reuse:
    """The longest prefix of `prompt` to take from the cache.

    Runs that `accept` does not name end it. At least the last token of the prompt is read again,
    because sampling needs its logits. A model that cannot truncate keeps everything or goes back
    to a checkpoint (`checkpoints` are token counts).
    """
    acceptable = 0
    for run in runs:
        if run.origin not in accept:
            break
        acceptable += run.length
    usable = min(common_prefix(cached, prompt), acceptable, max(len(prompt) - 1, 0))
    if can_truncate or usable == len(cached):
        return Reuse(usable)
    best = max((position for position in checkpoints if 0 < position <= usable), default=None)
    return Reuse(best or 0, best)


def cut_runs(runs: Sequence[Run], length: int) -> list[Run]:
    """The runs that cover the first `length` tokens."""
    kept: list[Run] = []
    for run in runs:
        if length <= 0:
            break
        kept.append(Run(min(run.length, length), run.origin))
        length -= run.length
    return kept


def add_run(runs: Sequence[Run], length: int, origin: Origin) -> list[Run]:
    """`runs` with `length` more tokens of `origin`, joined to the last run where it is the same."""
    if length <= 0:
        return list(runs)
    if runs and runs[-1].origin == origin:
        return [*runs[:-1], Run(runs[-1].length + length, origin)]
    return [*runs, Run(length, origin)]


def checkpoints_to_drop(positions: Sequence[int], limit: int) -> list[int]:
    """The checkpoints to give up so that at most `limit` stay.

    Drops, one by one, the checkpoint whose loss leaves the smallest gap: going back to a place in
    a gap means reading the tokens from its start again. The newest always stays.
    """
    kept = sorted(set(positions))
    dropped: list[int] = []
    while len(kept) > max(limit, 1):
        around = [0, *kept]
        gaps = [after - before for before, after in pairwise(around)]
        joined = [gaps[index] + gaps[index + 1] for index in range(len(kept) - 1)]
        victim = kept.pop(joined.index(min(joined)))
        dropped.append(victim)
    return dropped
