"""`./twofold test` runs everything, tells what failed, and fails if anything did."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from setup import bootstrap, checks
from setup.checks import Check
from setup.context import Context

PASS = [sys.executable, "-c", "print('fine', flush=True)"]
FAIL = [sys.executable, "-c", "raise SystemExit(3)"]


def run(context: Context, monkeypatch: pytest.MonkeyPatch, *given: Check) -> int:
    monkeypatch.setattr(checks, "checks", lambda *_, **__: list(given))
    monkeypatch.setattr(checks, "device_checks", lambda *_, **__: [])
    return checks.main(context, fast=False)


def test_all_is_well_only_if_every_check_succeeds(
    context: Context, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(context, monkeypatch, Check("one", [PASS]), Check("two", [PASS, PASS])) == 0
    output = capfd.readouterr().out
    assert output.count("fine") == 3
    assert output.index("=== one ===") < output.index("=== two ===") < output.index("=== Summary")


def test_a_failure_is_named_and_does_not_hide_what_comes_after(
    context: Context, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(context, monkeypatch, Check("one", [FAIL, PASS]), Check("two", [PASS])) == 1
    output = capfd.readouterr().out
    assert output.count("fine") == 1
    summary = output[output.index("=== Summary") :].splitlines()[1:]
    assert [line.split()[0] for line in summary] == ["FAILED", "ok"]


def test_an_unknown_option_sets_up_and_runs_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bootstrap, "set_up", lambda *_: pytest.fail("set up"))
    monkeypatch.setattr(bootstrap.signal, "signal", lambda *_: None)
    assert bootstrap.main(["test", "--slow"]) == 2
    assert "--fast" in capsys.readouterr().err
    assert bootstrap.main(["test", "--help"]) == 0
    assert "--fast" in capsys.readouterr().out


def test_fast_leaves_out_the_sanitizers_and_slow_tests_only(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "which", lambda _tool: None)
    every = {check.title: check for check in checks.checks(context, fast=False)}
    fast = {check.title: check for check in checks.checks(context, fast=True)}
    assert every.keys() - fast.keys() == {
        "clang-tidy",
        "C++ tests, AddressSanitizer",
        "C++ tests, ThreadSanitizer",
    }
    assert "not slow" in fast["Python tests"].commands[0]
    assert "not slow" not in every["Python tests"].commands[0]


def test_arm_kernels_are_checked_where_compiler_and_emulator_are(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(checks, "which", lambda tool: f"/usr/bin/{tool}")
    titles = {check.title for check in checks.checks(context, fast=False)}
    assert "C++ kernels for Arm, emulated" in titles
    monkeypatch.setattr(checks, "which", lambda tool: None if "aarch64" in tool else tool)
    assert titles - {check.title for check in checks.checks(context, fast=False)} == {
        "C++ kernels for Arm, emulated"
    }


def test_the_package_is_made_where_debians_tools_are(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    for found, made in (({"dpkg-deb", "objdump"}, True), ({"dpkg-deb"}, False)):
        monkeypatch.setattr(
            checks, "which", lambda tool, found=found: tool if tool in found else None
        )
        assert made is any(one.title == "package" for one in checks.checks(context, fast=False))
        assert all(one.title != "package" for one in checks.checks(context, fast=True))


def test_every_source_file_of_the_core_is_formatted(context: Context) -> None:
    source = context.root / "native" / "disk" / "reader.h"
    source.parent.mkdir(parents=True)
    source.touch()
    (context.root / "tests" / "native").mkdir(parents=True)
    every = {check.title: check for check in checks.checks(context, fast=True)}
    (command,) = every["clang-format"].commands
    assert [part for part in command if isinstance(part, Path)] == [source]


def test_what_runs_out_of_time_is_told_and_is_no_failure(
    context: Context, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    slow = Check("slow", [["timeout", "0.1", "sleep", "9"]], unfinished=124)
    assert run(context, monkeypatch, slow) == 0
    assert "STOPPED" in capfd.readouterr().out
    assert run(context, monkeypatch, Check("odd", [FAIL], unfinished=124)) == 1


def test_devices_are_rpc_always_and_vulkan_where_it_is_built(
    context: Context, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    made: list[str] = []

    def make(_: Context, __: object, name: str) -> None:
        made.append(name)

    monkeypatch.setattr(checks.backends, "make", make)
    monkeypatch.setattr(checks.backends, "built", lambda _, name: name if name in made else None)
    assert [check.title for check in checks.device_checks(context, build_all=False)] == [
        "device tests on RPC"
    ]
    assert "do not run on Vulkan" in capfd.readouterr().out
    titles = [check.title for check in checks.device_checks(context, build_all=True)]
    assert titles == ["device tests on RPC", "device tests on Vulkan"]
    assert made == ["rpc", "rpc", "vulkan"]
