"""A whole probe of this machine: measured once, kept with its date, stopped when asked."""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from engine.api.hardware import Disk, Profile, Rates
from engine.chat.cancellation import Cancellation
from engine.cli.probe import show
from engine.native import native
from engine.planner.plan import make_plan
from engine.planner.request import PlanRequest
from engine.probe import cache, disks
from engine.probe import probe as module
from engine.probe.errors import MeasuringFailed, ProbeStopped
from engine.probe.machine import host
from engine.probe.probe import known_profile, probe
from engine.probe.products import measure_products
from engine.probe.rates import measure_rates
from tests.support.planning import decoder


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one model to measure with, and a home of its own."""
    monkeypatch.setenv("TWOFOLD_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TWOFOLD_CACHE", raising=False)
    monkeypatch.setattr(disks, "SECONDS", 0.2)
    monkeypatch.setattr(disks, "LEAST_BYTES", 1 << 20)
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "m.gguf").write_bytes(os.urandom(4 << 20))
    return folder


@pytest.fixture
def fixed_rates(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Products are not measured; the names of those asked for."""
    asked: list[str] = []

    def measured(device: str, index: int, threads: int, **_: object) -> Rates:
        assert index == 0
        assert threads > 0
        asked.append(device)
        return Rates(device=device, products_tflops={"NVFP4": 0.5, "default": 0.4}, memory_gbps=9)

    monkeypatch.setattr(module, "measure_rates", measured)
    return asked


def test_a_probe_gives_a_profile_that_a_plan_is_made_for(
    models: Path, fixed_rates: list[str]
) -> None:
    found = Profile.model_validate_json(probe([models]).model_dump_json())
    assert fixed_rates == ["CPU"]
    assert found.devices == ()
    assert found.host.memory_total > found.host.memory_free > 0
    (disk,) = found.disks
    assert disk.read_gbps
    plan = make_plan(found, decoder("qwen3", "0.6b", "Q4_0"), None, PlanRequest())
    assert plan.device == "CPU"
    assert "plan.disk_unmeasured" not in {remark.code for remark in plan.warnings}


def test_a_folder_without_models_has_the_speed_of_the_disk_that_it_is_on(
    models: Path, fixed_rates: list[str]
) -> None:
    assert fixed_rates == []
    empty = models.parent / "empty"
    found = probe([empty, models])
    by_path = {disk.path: disk for disk in found.disks}
    assert by_path[str(empty)].read_gbps == by_path[str(models)].read_gbps
    assert by_path[str(empty)].warnings == by_path[str(models)].warnings
    output = io.StringIO()
    show(found, Console(file=output, width=200))
    [line] = [line for line in output.getvalue().splitlines() if line.startswith("Disk")]
    assert str(empty) in line
    assert str(models) in line


def test_a_reason_is_told_once_for_a_disk(tmp_path: Path, fixed_rates: list[str]) -> None:
    assert fixed_rates == []
    found = probe([tmp_path / "a", tmp_path / "b"])
    output = io.StringIO()
    show(found, Console(file=output, width=200))
    assert output.getvalue().count("probe.no_model_file") == 1
    assert "not measured" in output.getvalue()


def test_what_was_measured_is_not_measured_again_unless_asked(
    models: Path, fixed_rates: list[str]
) -> None:
    first = probe([models])
    second = probe([models])
    assert second.disks[0].read_gbps == first.disks[0].read_gbps
    assert second.disks[0].measured_at == first.disks[0].measured_at
    assert len(fixed_rates) == 1
    probe([models], again=True)
    assert len(fixed_rates) == 2
    assert known_profile([models]).rates == first.rates


def test_another_folder_of_the_same_disk_has_its_rate(
    models: Path, tmp_path: Path, fixed_rates: list[str]
) -> None:
    assert not fixed_rates
    measured = probe([models]).disks[0]
    (other,) = known_profile([tmp_path]).disks
    assert other.path == str(tmp_path)
    assert other.read_gbps == measured.read_gbps


def test_a_stopped_probe_keeps_what_it_has(models: Path, fixed_rates: list[str]) -> None:
    cancellation = Cancellation()

    def step(what: str, share: float | None, _rate: str) -> None:
        if share == 1.0:
            cancellation.cancel()
        assert what

    with pytest.raises(ProbeStopped):
        probe([models], on_step=step, cancellation=cancellation)
    assert fixed_rates == []
    assert known_profile([models]).disks[0].read_gbps


def test_a_kernel_that_kills_its_process_leaves_the_rates_unknown(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: object, **__: object) -> Rates:
        raise MeasuringFailed(what="CPU", reason="exit status -4")

    monkeypatch.setattr(module, "measure_rates", dies)
    assert probe([models]).rates == Rates()


def test_rates_of_another_variant_of_the_library_are_not_taken(
    models: Path, fixed_rates: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = probe([models]).rates
    assert fixed_rates and known_profile([models]).rates == measured != Rates()
    monkeypatch.setattr(module, "multiplier", lambda: "sse42/scalar")
    assert known_profile([models]).rates == Rates()


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"disks": 1}'])
def test_a_damaged_cache_is_as_none(models: Path, damage: str) -> None:
    folder = models.parent / "home" / "cache"
    folder.mkdir(parents=True)
    (folder / cache.FILE_NAME).write_text(damage)
    assert known_profile([models]).disks[0].read_gbps is None


def test_measurements_grow_old(tmp_path: Path) -> None:
    old = Disk(path="/a", read_gbps=1.0, measured_at="2001-01-01T00:00:00+00:00")
    cache.save(cache.Measured(disks=(old,), rates=Rates(), rates_at=old.measured_at), tmp_path)
    assert cache.load(tmp_path) == cache.Measured()
    assert not cache.fresh("yesterday")
    assert not cache.fresh(None)


def test_the_cpu_is_described(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("model name\t: A CPU \nflags\t\t: fpu avx2 amx_int8 sse4_2 ht\n")
    found = host(info)
    assert found.cpu == "A CPU"
    assert found.cpu_features == ("amx_int8", "avx2", "sse4_2")
    assert found.cores >= 1
    assert host(tmp_path / "missing").cpu_features == ()


def test_the_library_lists_the_cpu() -> None:
    (cpu,) = [device for device in native().list_devices() if device.kind == "cpu"]
    assert cpu.name == "CPU"
    assert cpu.memory_total > 0


def test_products_are_measured_for_the_types_that_the_device_multiplies() -> None:
    found = measure_products(["Q8_0", "I32"], decode=True)
    assert found.tflops.keys() == found.decode_gbps.keys() == {"Q8_0"}
    assert found.tflops["Q8_0"] > 1e-4
    assert found.decode_gbps["Q8_0"] > 1e-2


@pytest.mark.parametrize(
    ("type_", "columns", "rows", "tokens"),
    [(-1, 256, 8, 1), (999, 256, 8, 1), (8, 100, 8, 1), (8, 0, 8, 1), (8, 256, 8, 0),
     (4, 256, 8, 1)],
)  # fmt: skip
def test_a_product_that_cannot_be_is_refused(
    type_: int, columns: int, rows: int, tokens: int
) -> None:
    with pytest.raises(ValueError, match=r"no such|sizes"):
        native().measure_product(0, type_, columns, rows, tokens)


@pytest.mark.slow
def test_rates_come_from_a_process_of_their_own() -> None:
    found = measure_rates("CPU", 0, 1, types=("NVFP4", "F16", "Q4_0"))
    assert found.device == "CPU"
    assert found.products_tflops.keys() == {"NVFP4", "F16", "Q4_0"}
    assert found.memory_gbps == max(found.decode_gbps.values())
    assert found.attention_tflops


def test_measuring_rates_stops_at_once() -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    started = time.monotonic()
    with pytest.raises(ProbeStopped):
        measure_rates("CPU", 0, 1, cancellation=cancellation)
    assert time.monotonic() - started < 10


def test_a_device_that_is_not_there_ends_the_measuring_process_alone() -> None:
    with pytest.raises(MeasuringFailed, match="CPU99"):
        measure_rates("CPU99", 99, 1, types=("Q8_0",))


def test_a_measurement_that_never_ends_is_given_up() -> None:
    types: Sequence[str] = ("Q8_0",)
    with pytest.raises(MeasuringFailed, match="no end"):
        measure_rates("CPU", 0, 1, types=types, time_limit_s=0.01)


def test_a_profile_is_plain_json(models: Path) -> None:
    text = known_profile([models]).model_dump_json(exclude_none=True)
    assert set(json.loads(text)) == {"devices", "host", "disks", "rates"}
