"""The timeline of a prompt that is streamed to a device: all that happens to each block."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from engine.runtime.trace import chrome_trace
from tests.support.devices import ARCHS, on_device
from tests.support.sessions import MakePair, make_plan, prompt

DELAY_S = 0.02
PASSES = 2


def delayed(_block: int) -> None:
    time.sleep(DELAY_S)


def timeline(pair_of: MakePair, device: str) -> list[Any]:
    """Of a prompt of two passes whose uploads and blocks both take at least DELAY_S."""
    plan = make_plan(on_upload=delayed, on_compute=delayed, trace_limit=10_000)
    session = on_device(pair_of(ARCHS[0]), device, plan)
    session.prefill(prompt(64 * PASSES), True)
    return list(session.stream_events)


def of(events: list[Any], kind: str) -> list[Any]:
    return [event for event in events if event.kind == kind]


def test_each_block_is_read_uploaded_and_computed_in_this_order(
    pair_of: MakePair, device_name: str
) -> None:
    events = timeline(pair_of, device_name)
    steps = {
        kind: {(event.pass_index, event.block): event for event in of(events, kind)}
        for kind in ("load", "upload", "compute")
    }
    places = {(at, block) for at in range(PASSES) for block in range(4)}
    assert all(set(found) == places for found in steps.values())
    for place in places:
        load, upload, compute = (steps[kind][place] for kind in ("load", "upload", "compute"))
        assert load.start <= load.end <= upload.end <= compute.end
    assert of(events, "wait")


def test_a_viewer_can_open_it(pair_of: MakePair, device_name: str, tmp_path: Path) -> None:
    events = timeline(pair_of, device_name)
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(chrome_trace(events)), encoding="utf-8")
    drawn = [one for one in json.loads(file.read_text())["traceEvents"] if one["ph"] == "X"]
    assert len(drawn) == len(events)
    assert all(one["dur"] >= 0 and {"block", "pass"} <= set(one["args"]) for one in drawn)
