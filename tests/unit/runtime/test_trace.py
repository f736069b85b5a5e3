"""The timeline file: what a trace viewer draws is what happened."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from engine.runtime.loaded_model import LoadedModel, NoGpu
from engine.runtime.settings import LoadSettings
from engine.runtime.trace import chrome_trace
from tests.support.sessions import MakePair


@dataclass
class Happened:
    kind: str
    block: int
    start: float
    end: float
    pass_index: int = 0


def drawn(trace: dict[str, Any]) -> list[dict[str, Any]]:
    return [event for event in trace["traceEvents"] if event["ph"] == "X"]


def test_times_are_microseconds_and_blocks_are_named() -> None:
    trace = chrome_trace([Happened("upload", 3, 0.5, 0.75, pass_index=2)])
    (event,) = drawn(trace)
    assert (event["ts"], event["dur"]) == (500_000, 250_000)
    assert event["name"] == "block 3" and event["cat"] == "upload"
    assert event["args"] == {"block": 3, "pass": 2}


def test_what_overlaps_never_shares_a_row() -> None:
    events = [Happened("load", n, n / 8, n / 8 + 5 / 16) for n in range(20)]
    events += [Happened("compute", n, n / 8, n / 8 + 1 / 8) for n in range(20)]
    rows: dict[int, float] = {}
    for event in drawn(chrome_trace(events)):
        assert rows.get(event["tid"], 0) <= event["ts"]
        rows[event["tid"]] = event["ts"] + event["dur"]
    assert len(rows) == 3 + 1


def test_a_streamed_prompt_leaves_its_timeline(pair_of: MakePair, tmp_path: Path) -> None:
    pair, file = pair_of("llama"), tmp_path / "trace.json"
    settings = LoadSettings(context=512, micro_batch=64, threads=1)
    model = LoadedModel(pair.decoder, prefiller=pair.prefiller, settings=settings, trace=file)
    tokens = model.tokenize("word " * 30, add_special=False, parse_special=False)
    model.prefill(tokens, path="resident", on_progress=lambda _: None)
    assert not file.exists()
    model.keep(0)
    model.prefill(tokens, path="odp", on_progress=lambda _: None)
    model.close()
    events = drawn(json.loads(file.read_text()))
    passes = -(-len(tokens) // 64)
    for kind in ("disk", "compute"):
        blocks = sorted((e["args"]["pass"], e["args"]["block"]) for e in events if e["cat"] == kind)
        assert blocks == [(at, block) for at in range(passes) for block in range(4)]


def test_layers_on_a_gpu_that_is_not_there_are_refused(pair_of: MakePair) -> None:
    settings = LoadSettings(context=512, threads=1, gpu_layers=3)
    with pytest.raises(NoGpu) as caught:
        LoadedModel(pair_of("llama").decoder, settings=settings)
    assert caught.value.data == {"layers": 3}
