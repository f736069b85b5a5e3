"""A prompt's timeline, block by block, in Chrome's trace event format."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

# Far more than a prompt has: four for each block of each pass.
TRACE_EVENTS = 100_000
_NAMES = {"load": "disk", "upload": "upload", "wait": "wait", "compute": "compute"}
_MICROSECONDS = 1e6


class Event(Protocol):
    """As `engine._native` gives it; seconds since the prompt's begin."""

    kind: str
    pass_index: int
    block: int
    start: float
    end: float


def chrome_trace(events: Iterable[Event]) -> dict[str, Any]:
    """Rows for reads, uploads, waits and compute. Of what overlaps, each has a row of its own."""
    found: list[dict[str, Any]] = []
    free_from: dict[str, list[float]] = {kind: [] for kind in _NAMES}
    for event in sorted(events, key=lambda event: event.start):
        rows = free_from[event.kind]
        row = next((row for row, end in enumerate(rows) if end <= event.start), len(rows))
        if row == len(rows):
            rows.append(0.0)
        rows[row] = event.end
        found.append(
            {
                "name": f"block {event.block}",
                "cat": _NAMES[event.kind],
                "ph": "X",
                "ts": event.start * _MICROSECONDS,
                "dur": (event.end - event.start) * _MICROSECONDS,
                "pid": 1,
                "tid": _thread(event.kind, row),
                "args": {"block": event.block, "pass": event.pass_index},
            }
        )
    names = [
        {
            "name": "thread_name",
            "ph": "M",
            "pid": 1,
            "tid": _thread(kind, row),
            "args": {"name": _NAMES[kind] + (f" {row + 1}" if row else "")},
        }
        for kind, rows in free_from.items()
        for row in range(len(rows))
    ]
    return {"traceEvents": names + found, "displayTimeUnit": "ms"}


def write_trace(path: Path, events: Iterable[Event]) -> None:
    path.write_text(json.dumps(chrome_trace(events)), encoding="utf-8")


def _thread(kind: str, row: int) -> int:
    """Rows appear in this order."""
    return 100 * list(_NAMES).index(kind) + row
