"""`twofold plan` and `twofold probe` as commands."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from engine.api.hardware import Profile, Rates
from engine.api.plan import PROMPT_LENGTHS, Plan
from engine.assets import asset
from engine.cli import plan as module
from engine.cli.plan import PlanNotWritten, read_profile
from engine.cli.probe import disk_sentence
from engine.planner.plan import UnknownDevice
from engine.probe import disks
from engine.probe import probe as probing
from engine.probe.errors import BadProfile
from engine.probe.words import DISK_SENTENCES
from tests.support.planning import card
from tests.support.published_models import write_sparse
from tests.support.tiny_models import write_tiny

SPARK = str(asset("profiles/dgx_spark.json"))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWOFOLD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "120")


def run(*args: str | Path) -> Result:
    done = CliRunner().invoke(module.app, [str(arg) for arg in args])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def test_another_machine_is_planned_for_from_its_profile(tmp_path: Path) -> None:
    model = write_sparse(tmp_path / "m-IQ1_S.gguf", "qwen35", "27b", "IQ1_S")
    out = tmp_path / "plan.json"
    done = run("-m", model, "--profile", SPARK, "--mode", "odp", "--device-blocks", "0",
               "--ctx", "32768", "--json", out)  # fmt: skip
    assert done.exit_code == 0
    plan = Plan.model_validate_json(out.read_bytes())
    assert plan.device == "GB10"
    assert plan.crossover is not None
    assert 2048 <= plan.crossover <= 4096
    for words in ("Time to the first token", "131,072 tokens", "64 disk", "carved out", "GB10"):
        assert words in done.output
    for remark in (*plan.reasons, *plan.warnings):
        assert remark.sentence in done.output


def test_this_machine_is_planned_for_with_the_librarys_own_count(tmp_path: Path) -> None:
    model = write_tiny(tmp_path / "m-Q8_0.gguf", "llama")
    out = tmp_path / "plan.json"
    assert run("-m", model, "--ctx", "2048", "--json", out).exit_code == 0
    plan = json.loads(out.read_text())
    assert plan["memory_exact"]
    assert plan["device"] == "CPU"
    assert plan["mode"] == "decoder"
    assert plan["fits"]
    assert len(plan["forecasts"][0]["ttft_s"]) == len(PROMPT_LENGTHS)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "JSON"),
        (b"{}", "host"),
        (b'{"host": {"memory_total": -1, "memory_free": 0}}', "host.memory_total"),
        (b'{"host": {"memory_total": 1, "memory_free": 0}, "extra": 1}', "extra"),
        (b'{"host": {"memory_total": 1, "memory_free": 0}, "disks": [{"path": "/", '
         b'"read_gbps": 0}]}', "disks.0.read_gbps"),
        (b" " * (2 << 20), "too large"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_profile_is_one_clear_sentence(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    path = tmp_path / "p.json"
    path.write_bytes(content)
    with pytest.raises(BadProfile) as refused:
        read_profile(path)
    assert reason in refused.value.data["reason"]


def test_a_missing_profile_device_or_output_folder_is_said(tmp_path: Path) -> None:
    model = write_tiny(tmp_path / "m.gguf", "llama")
    with pytest.raises(BadProfile):
        run("-m", model, "--profile", tmp_path / "none.json")
    with pytest.raises(UnknownDevice):
        run("-m", model, "--profile", SPARK, "--device", "CUDA3")
    with pytest.raises(PlanNotWritten):
        run("-m", model, "--profile", SPARK, "--json", tmp_path / "no" / "plan.json")


def test_a_profile_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(card(24).model_dump_json(exclude_none=True))
    assert read_profile(path) == card(24)


def test_probe_prints_a_profile_that_plan_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.cli import probe as command

    monkeypatch.setattr(disks, "SECONDS", 0.1)
    monkeypatch.setattr(disks, "LEAST_BYTES", 1 << 16)
    rates = Rates(device="CPU", products_tflops={"NVFP4": 0.5, "default": 0.4}, memory_gbps=9)
    monkeypatch.setattr(probing, "measure_rates", lambda *_, **__: rates)
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "m.gguf").write_bytes(os.urandom(1 << 20))
    done = CliRunner().invoke(command.app, ["--json", "--folder", str(folder)])
    assert done.exit_code == 0
    profile = tmp_path / "here.json"
    profile.write_text(done.stdout)
    assert read_profile(profile).disks[0].read_gbps
    model = write_tiny(tmp_path / "m.gguf", "llama")
    assert run("-m", model, "--profile", profile).exit_code == 0
    shown = CliRunner().invoke(command.app, ["--folder", str(folder)])
    for words in ("none: the CPU computes", "GB/s, measured", "NVFP4 0.5"):
        assert words in shown.output


def test_every_warning_of_a_disk_is_a_sentence() -> None:
    disk = Profile.model_validate_json(Path(SPARK).read_bytes()).disks[0]
    for code in DISK_SENTENCES:
        assert disk_sentence(code, disk).endswith(f". [{code}]")
