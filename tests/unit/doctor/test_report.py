"""The doctor's report says what is wrong in sentences, and exits accordingly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from engine.cli.main import app
from engine.doctor import report as doctor

HEALTHY: dict[str, Any] = {
    "healthy": True,
    "commit": "0c1e57098",
    "system_info": "CPU : AVX2 = 1 | ",
    "devices": [
        {
            "name": "CPU",
            "description": "A processor",
            "type": "CPU",
            "memory_free": 1 << 30,
            "memory_total": 2 << 30,
        }
    ],
    "kernels": [{"type": "Q4_0", "buffer": "CPU", "error": 0.005}],
}


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.delenv("TWOFOLD_CACHE", raising=False)
    monkeypatch.setenv("TWOFOLD_HOME", str(tmp_path))
    monkeypatch.setattr(doctor, "self_check", lambda: HEALTHY)
    monkeypatch.setattr(doctor, "_loading_problems", list)


def test_a_healthy_machine_has_no_problems(tmp_path: Path) -> None:
    found = doctor.report()
    assert found.healthy
    assert found.problems == []
    assert [folder.path for folder in found.folders] == [
        tmp_path / name for name in ("data", "cache", "config", "logs")
    ]
    assert found.machine.cores >= 1
    assert found.library.wanted == found.library.version


def test_json_output_is_the_report() -> None:
    done = CliRunner().invoke(app, ["doctor", "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["devices"][0]["name"] == "CPU"


def test_a_library_that_dies_is_named_with_its_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = {"healthy": False, "reason": "SIGILL", "kernel": "Q4_0 AMX 5", "detail": "Q4_0 AMX 5"}
    monkeypatch.setattr(doctor, "self_check", lambda: outcome)
    # Loading a library that has just died in a child would take this process with it.
    monkeypatch.setattr(doctor, "_loading_problems", lambda: pytest.fail("loaded it"))
    done = CliRunner().invoke(app, ["doctor"])
    assert done.exit_code == 1
    assert "SIGILL in Q4_0 AMX 5" in done.stdout.replace("\n", " ")
    assert "All is well" not in done.stdout


def test_a_full_disk_and_a_blocked_folder_are_problems(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(doctor, "LITTLE_SPACE", 1 << 62)
    (tmp_path / "logs").write_text("a file where a folder belongs", encoding="utf-8")
    found = doctor.report()
    assert not found.healthy
    codes = [problem.code for problem in found.problems]
    assert codes == ["doctor.little_space", "doctor.little_space", "doctor.folder_not_writable"]
    assert str(tmp_path / "logs") in found.problems[2].sentence


def test_an_extension_that_does_not_load_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(doctor, "self_check", lambda: HEALTHY)

    def broken() -> None:
        raise ImportError("undefined symbol: ggml_nothing")

    monkeypatch.setattr(doctor.native, "native", broken)
    found = doctor.report()
    assert [problem.code for problem in found.problems] == ["library.extension_broken"]
    assert "ggml_nothing" in found.problems[0].sentence
