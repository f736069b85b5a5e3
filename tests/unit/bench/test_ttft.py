"""Rows of the time to first token say what happened: counts, bytes, order, cold reads."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from engine.bench import ttft
from engine.bench.errors import PromptTooShort, Stopped
from engine.bench.synth import Synthetic, write_synthetic
from engine.bench.ttft import Run, TtftRow, against_best, measure_ttft
from engine.chat.cancellation import Cancellation
from engine.gguf.types import GgmlType
from engine.native import native
from engine.runtime.loaded_model import LoadedModel
from engine.runtime.routing import NoPrefiller
from engine.runtime.settings import LoadSettings
from tests.support.synthetic import small_shape

PATHS = ("decoder", "resident", "odp")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Synthetic:
    folder = tmp_path_factory.mktemp("made")
    return write_synthetic(small_shape("qwen3"), GgmlType.Q8_0, folder, "small")


@pytest.fixture
def model(made: Synthetic) -> Generator[LoadedModel]:
    settings = LoadSettings(context=256, micro_batch=128, threads=1)
    loaded = LoadedModel(made.decoder, prefiller=made.prefiller, settings=settings)
    yield loaded
    loaded.close()


@pytest.fixture(autouse=True)
def short_disk_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ttft, "_DISK_SECONDS", 0.02)


def by_path(rows: list[TtftRow], tokens: int) -> dict[str, TtftRow]:
    return {row.path: row for row in rows if row.prompt_tokens == tokens}


def test_rows_tell_bytes_and_memory_of_each_path(model: LoadedModel) -> None:
    rows = measure_ttft(model, (100, 200), PATHS, 2)
    assert model.prefiller is not None
    nbytes = model.prefiller.nbytes
    assert [(row.path, row.prompt_tokens) for row in rows] == [
        (path, tokens) for path in PATHS for tokens in (100, 200)
    ]
    for row in rows:
        assert len(row.ttft_s) == len(row.prefill_s) == 2
        assert all(
            0 < prefill < first for prefill, first in zip(row.prefill_s, row.ttft_s, strict=True)
        )
        assert row.micro_batch == 128
    one_pass, two_passes = by_path(rows, 100), by_path(rows, 200)
    assert one_pass["odp"].bytes_read == nbytes
    assert two_passes["odp"].bytes_read == 2 * nbytes
    for path in ("decoder", "resident"):
        assert one_pass[path].bytes_read == 0
        assert one_pass[path].read_gbps is None
        assert one_pass[path].read_floor_s == 0
    assert one_pass["decoder"].prefill_weight_bytes == 0
    assert nbytes <= one_pass["resident"].prefill_weight_bytes <= nbytes + (1 << 20)
    slots = 2 * nbytes / 3  # of three equal blocks
    assert slots <= one_pass["odp"].prefill_weight_bytes <= slots + (1 << 20)


def test_the_read_floor_is_the_bytes_at_the_rate_of_the_same_run(model: LoadedModel) -> None:
    (row,) = measure_ttft(model, (100,), ("odp",), 1)
    assert row.disk_gbps is not None
    assert row.read_gbps is not None
    assert row.read_floor_s == pytest.approx(row.bytes_read / row.disk_gbps / 1e9)
    assert row.read_gbps > 0
    assert 0 <= row.wait_s <= row.prefill_s[0]


def test_paths_take_turns_within_a_repeat(model: LoadedModel) -> None:
    runs: list[Run] = []

    def on_run(run: Run, done: int, ttft_s: float | None) -> None:
        if ttft_s is not None:
            assert done == run.prompt_tokens
            runs.append(run)

    measure_ttft(model, (64, 40), ("decoder", "odp"), 2, on_run=on_run)
    warm_up, *measured = runs
    assert (warm_up.path, warm_up.prompt_tokens, warm_up.number) == ("decoder", 40, 0)
    in_turn = [("decoder", 64), ("odp", 64), ("decoder", 40), ("odp", 40)]
    assert [(run.path, run.prompt_tokens) for run in measured] == in_turn * 2
    assert [run.number for run in measured] == list(range(1, 9))
    assert {run.total for run in measured} == {8}


def test_every_run_is_cold_and_reads_the_whole_prompt(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    drop, prefill = native().drop_from_page_cache, model.prefill

    def dropping(path: Path) -> None:
        events.append("dropped")
        drop(path)

    def prefilling(tokens: list[int], **rest: object) -> object:
        events.append(f"{len(model.cached_tokens)}+{len(tokens)}")
        return prefill(tokens, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(native(), "drop_from_page_cache", dropping)
    monkeypatch.setattr(model, "prefill", prefilling)
    measure_ttft(model, (50,), ("decoder", "odp"), 2)
    assert events == ["dropped", "0+50"] * 5


def test_the_decoders_peak_does_not_count_what_resident_held(tmp_path: Path) -> None:
    shape = small_shape("qwen3", blocks=2, width=1024, ffn=8192)
    big = write_synthetic(shape, GgmlType.Q2_0, tmp_path, "wide")
    out = tmp_path / "rows.json"
    # A process of its own: memory that other tests give back would count.
    options = ["--prefiller", big.prefiller, "--json", out, "--prompt-tokens", 40, "--repeat", 1]
    command = [sys.executable, "-m", "engine.cli", "bench", "ttft", "-m", big.decoder, *options]
    subprocess.run([str(part) for part in command], check=True, capture_output=True)
    written = json.loads(out.read_text(encoding="utf-8"))
    rows = by_path([TtftRow.model_validate(row) for row in written], 40)
    peaks = {path: row.peak_rss_bytes for path, row in rows.items()}
    assert peaks["resident"] is not None and peaks["decoder"] is not None
    weights = rows["resident"].prefill_weight_bytes
    assert peaks["resident"] - peaks["decoder"] > 0.8 * weights
    assert weights > 25e6


def test_without_a_prefiller_only_the_decoder_can_be_measured(made: Synthetic) -> None:
    loaded = LoadedModel(made.decoder, settings=LoadSettings(context=64, threads=1))
    (row,) = measure_ttft(loaded, (40,), ("decoder",), 1)
    assert row.disk_gbps is None
    started: list[Run] = []
    with pytest.raises(NoPrefiller):
        measure_ttft(
            loaded, (40,), ("decoder", "odp"), 1, on_run=lambda run, *_: started.append(run)
        )
    loaded.close()
    assert started == []


def test_a_prompt_that_only_the_decoder_would_read_is_refused(model: LoadedModel) -> None:
    with pytest.raises(PromptTooShort) as refused:
        measure_ttft(model, (100, 31), PATHS, 1)
    assert refused.value.data == {"tokens": 31, "least": native().min_prefill_tokens}


@pytest.mark.parametrize("when", ["before a run", "while reading"])
def test_stopping_ends_the_measurement_and_leaves_the_model_usable(
    model: LoadedModel, when: str
) -> None:
    cancellation = Cancellation()

    def on_run(run: Run, done: int, ttft_s: float | None) -> None:
        if run.number == 2 and (done > 0 or when == "before a run") and ttft_s is None:
            cancellation.cancel()

    with pytest.raises(Stopped):
        measure_ttft(model, (200,), PATHS, 3, on_run=on_run, cancellation=cancellation)
    assert len(measure_ttft(model, (64,), ("odp",), 1)) == 1


def test_odp_is_held_against_the_larger_of_its_floor_and_resident() -> None:
    def row(path: str, ttft_s: list[float], floor: float = 0.0, tokens: int = 64) -> TtftRow:
        return TtftRow.model_validate(
            {
                "path": path,
                "prompt_tokens": tokens,
                "micro_batch": 64,
                "ttft_s": ttft_s,
                "prefill_s": ttft_s,
                "bytes_read": 0,
                "read_gbps": None,
                "wait_s": 0,
                "prefill_weight_bytes": 0,
                "peak_rss_bytes": None,
                "disk_gbps": None,
                "read_floor_s": floor,
            }
        )

    resident, streamed = row("resident", [1, 2, 9]), row("odp", [3, 3, 1], floor=1)
    rows = [row("resident", [50], tokens=32), resident, streamed]
    assert against_best(streamed, rows) == 3 / 2
    slow_disk = row("odp", [3, 3, 1], floor=4)
    assert against_best(slow_disk, rows) == 3 / 4
    assert against_best(resident, rows) is None
    assert against_best(streamed, [streamed]) is None
