"""What the native session counted about drafts, as a turn reports it."""

from __future__ import annotations

from typing import Any

from engine.api.turn import DraftMethod, DraftReport


def draft_report(done: Any, method: DraftMethod) -> DraftReport | None:
    """None if no drafted token was verified."""
    if not done.verifications or not done.seconds or not done.baseline_seconds:
        return None
    shares = zip(done.accepted_at, done.drafted_at, strict=True)
    return DraftReport(
        method=method,
        tau=done.tau,
        verifications=done.verifications,
        drafted_tokens=done.drafted,
        accepted_tokens=done.accepted,
        accepted_by_position=tuple(accepted / drafted for accepted, drafted in shares if drafted),
        tps=done.tokens / done.seconds,
        baseline_tps=done.tokens / done.baseline_seconds,
    )
