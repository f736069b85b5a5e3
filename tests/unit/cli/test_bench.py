"""The bench commands: the JSON that they write, the tables, and what they refuse."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from engine.bench import ttft
from engine.bench.synth import Synthetic, write_synthetic
from engine.cli import bench as command
from engine.gguf.types import GgmlType
from tests.support.synthetic import small_shape


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Synthetic:
    folder = tmp_path_factory.mktemp("made")
    return write_synthetic(small_shape("qwen3"), GgmlType.Q8_0, folder, "small")


def run(*args: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(command.app, [str(arg) for arg in args])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr


def pair(made: Synthetic) -> tuple[object, ...]:
    return "-m", made.decoder, "--prefiller", made.prefiller, "--threads", 1


def test_ttft_writes_rows_and_shows_medians(
    made: Synthetic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ttft, "_DISK_SECONDS", 0.02)
    lengths = ("--prompt-tokens", "64,100", "--repeat", 2)
    code, out, err = run("ttft", *pair(made), *lengths, "--json", tmp_path / "rows.json")
    assert code == 0
    rows: list[dict[str, Any]] = json.loads((tmp_path / "rows.json").read_text())
    assert [(row["path"], row["prompt_tokens"]) for row in rows] == [
        (path, tokens) for path in ("decoder", "resident", "odp") for tokens in (64, 100)
    ]
    assert set(rows[0]) == {
        "path",
        "prompt_tokens",
        "micro_batch",
        "ttft_s",
        "prefill_s",
        "bytes_read",
        "read_gbps",
        "wait_s",
        "prefill_weight_bytes",
        "peak_rss_bytes",
        "disk_gbps",
        "read_floor_s",
    }
    assert all(len(row["ttft_s"]) == 2 for row in rows)
    assert "of best" in out
    assert "12 of 12: odp, 100 tokens" in err


def test_decode_writes_a_row_a_method(made: Synthetic, tmp_path: Path) -> None:
    sizes = ("--tokens", 3, "--repeat", 2, "--prompt-tokens", 40)
    code, out, _ = run("decode", *pair(made), *sizes, "--json", tmp_path / "rows.json")
    assert code == 0
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [row["method"] for row in rows] == ["library", "engine"]
    assert {"method", "tps", "median", "ratio"} <= set(rows[0])
    assert "GOMP_SPINCOUNT" in out


def test_disk_writes_one_object(made: Synthetic, tmp_path: Path) -> None:
    code, out, _ = run(
        *("disk", made.prefiller, "--seconds", 0.1, "--block-bytes", 65536, "--in-flight", 2),
        *("--json", tmp_path / "disk.json"),
    )
    row = json.loads((tmp_path / "disk.json").read_text())
    assert code == 0
    assert set(row) == {"block_bytes", "gbps", "direct", "in_flight"}
    assert (row["block_bytes"], row["in_flight"]) == (65536, 2)
    assert "GB/s" in out


def test_synth_prints_the_two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "model_shape", lambda arch, _like: small_shape(arch))
    folder = tmp_path / "new" / "folder"
    code, out, _ = run("synth", "--arch", "qwen35", "--like", "27B", "--decoder", "q4_0", folder)
    assert code == 0
    decoder, prefiller = map(Path, out.split())
    assert decoder == folder / "qwen35-27b-Q4_0.gguf"
    assert prefiller == folder / "qwen35-27b-Q4_0.prefiller.gguf"
    assert decoder.is_file()
    assert prefiller.is_file()


@pytest.mark.parametrize(
    "wrong",
    [
        ("--paths", "decoder,fastest"),
        ("--prompt-tokens", "12,x"),
        ("--prompt-tokens", "0"),
        ("--json", "no/such/folder/rows.json"),
        ("--repeat", "0"),
    ],
)
def test_wrong_options_are_refused_before_the_model_is_opened(wrong: tuple[str, str]) -> None:
    code, _, err = run("ttft", "-m", "no-such-model.gguf", *wrong)
    assert code == 2
    assert "no-such-model" not in err


def test_ctrl_c_stops_within_a_second_with_a_sentence(made: Synthetic, tmp_path: Path) -> None:
    rows = tmp_path / "rows.json"
    lengths = ("--prompt-tokens", 500, "--repeat", 500, "--json", rows)
    process = subprocess.Popen(
        [sys.executable, "-m", "engine.cli", "bench", "ttft", *map(str, (*pair(made), *lengths))],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "100"},
    )
    assert process.stderr is not None
    first = process.stderr.readline()
    process.send_signal(signal.SIGINT)
    stopped = time.monotonic()
    rest = process.stderr.read()
    assert process.wait() == 1
    assert time.monotonic() - stopped < 5  # a second, on a machine that does nothing else
    process.stderr.close()
    assert "1 of 1500: decoder, 500 tokens" in first
    assert "The measurement was stopped" in rest
    assert not rows.exists()
