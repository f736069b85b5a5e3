"""Runs every check of the project, one after the other: `./twofold test [--fast]`."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import which

from setup import backends, doctest_header
from setup.compiler import find_compiler
from setup.context import Context
from setup.library import build_path, job_count

USAGE = """Usage: ./twofold test [--fast | --device]

Runs the linters, the type checker, the C++ tests (also under AddressSanitizer and
ThreadSanitizer) and the Python tests. --fast leaves out clang-tidy, the sanitizers, the
devices and the tests marked slow. --device runs the device suite alone: on another
process's memory (RPC), and on Vulkan, whose backend it builds if need be."""

# A software driver compiles every program for the CPU first, and may take very long.
VULKAN_LIMIT_S = 1200


@dataclass(frozen=True)
class Check:
    """Commands that have to succeed one after the other."""

    title: str
    commands: Sequence[Sequence[str | Path]]
    slow: bool = False
    # Exit status that says it was stopped for time: told, and not counted as a failure.
    unfinished: int | None = None


def refuse(arguments: Sequence[str]) -> int | None:
    """The exit code of arguments that run nothing, after saying how to call it; else None."""
    if list(arguments) in ([], ["--fast"], ["--device"]):
        return None
    help_wanted = "--help" in arguments
    print(USAGE, file=sys.stdout if help_wanted else sys.stderr)
    return 0 if help_wanted else 2


def main(context: Context, *, fast: bool, device: bool = False) -> int:
    """Runs the checks, prints a summary, and returns 0 only if all succeeded."""
    environ = {**os.environ, "PATH": build_path(context)} | find_compiler().environ
    results: list[tuple[str, str, float]] = []
    given = [] if device else checks(context, fast=fast)
    if not fast:
        given += device_checks(context, build_all=device)
    for check in given:
        print(f"\n=== {check.title} ===", flush=True)
        started = time.monotonic()
        status = 0
        for command in check.commands:
            status = subprocess.run(
                [str(part) for part in command],
                cwd=context.root,
                env=environ,
                stdin=subprocess.DEVNULL,
                check=False,
            ).returncode
            if status:
                break
        words = {0: "ok", check.unfinished: "STOPPED"}.get(status, "FAILED")
        results.append((check.title, words, time.monotonic() - started))
    print("\n=== Summary ===")
    for title, words, seconds in results:
        print(f"{words:<8}{seconds:6.0f} s  {title}")
    return 1 if any(words == "FAILED" for _, words, _ in results) else 0


def device_checks(context: Context, *, build_all: bool) -> list[Check]:
    """The device suite on RPC always; on Vulkan if its backend is built, or `build_all`.

    Says what is left out. Raises SetupError if a backend cannot be built.
    """
    compiler = find_compiler()
    backends.make(context, compiler, "rpc")
    if build_all:
        backends.make(context, compiler, "vulkan")
    found = [Check("device tests on RPC", [_device_tests(context, "rpc")])]
    if backends.built(context, "vulkan") is None:
        print("The device tests do not run on Vulkan: ./twofold test --device builds its backend.")
        return found
    limited = ["timeout", "--kill-after=10", str(VULKAN_LIMIT_S), *_device_tests(context, "vulkan")]
    return [*found, Check("device tests on Vulkan", [limited], unfinished=124)]


def _device_tests(context: Context, kind: str) -> list[str | Path]:
    pytest = ["-m", "pytest", "-n", "0", "tests/device"]
    return ["env", f"TWOFOLD_TEST_DEVICE={kind}", context.python, *pytest]


def checks(context: Context, *, fast: bool) -> list[Check]:
    """The checks in the order of their cost; the Python tests, whose summary matters, last."""
    python = [context.python, "-m"]
    tests = ["-m", "not slow"] if fast else []
    sources = sorted(
        path
        for folder in ("native", "tests/native")
        for path in (context.root / folder).rglob("*")
        if path.suffix in (".cpp", ".h")
    )
    found = [
        Check("ruff", [[*python, "ruff", "check"], [*python, "ruff", "format", "--check"]]),
        Check("pyright", [[*python, "pyright"]]),
        Check("import contracts", [[context.venv / "bin" / "lint-imports"]]),
        Check("clang-format", [["clang-format", "--dry-run", "-Werror", *sources]]),
        Check("clang-tidy", [_clang_tidy(context)], slow=True),
        Check("C++ tests", _cpp_tests(context, "")),
        Check("C++ tests, AddressSanitizer", _cpp_tests(context, "address,undefined"), slow=True),
        Check("C++ tests, ThreadSanitizer", _cpp_tests(context, "thread"), slow=True),
        *_arm_checks(context),
        *_package(context),
        Check("set-up tests", [[*python, "pytest", *tests, "tests/unit/setup"]]),
        Check(
            "Python tests",
            [[*python, "pytest", *tests, "--ignore=tests/unit/setup", "--ignore=tests/device"]],
        ),
    ]
    return [check for check in found if not (fast and check.slow)]


def _clang_tidy(context: Context) -> list[str | Path]:
    """Reads the compile commands that building the extension left behind."""
    return [
        *(context.python, context.venv / "bin" / "run-clang-tidy.py", "-quiet"),
        *("-clang-tidy-binary", context.venv / "bin" / "clang-tidy"),
        *("-p", context.root / "build" / "extension", "-j", str(job_count())),
        f"^{re.escape(str(context.root / 'native'))}/",
    ]


def _arm_checks(context: Context) -> list[Check]:
    """The kernels for Arm, emulated, where the cross compiler and the emulator are installed."""
    compiler, emulator = "aarch64-linux-gnu-g++", "qemu-aarch64"
    if platform.machine() == "aarch64" or not (which(compiler) and which(emulator)):
        return []
    build = context.root / "build" / "tests-arm"
    header = doctest_header.folder(context)
    configure: list[str | Path] = [
        *("cmake", "-S", context.root / "native", "-B", build, "-G", "Ninja"),
        *("-DTWOFOLD_EXTENSION=OFF", "-DTWOFOLD_TESTS=ON", "-DCMAKE_BUILD_TYPE=Release"),
        *("-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64"),
        f"-DCMAKE_CXX_COMPILER={compiler}",
        f"-DCMAKE_CROSSCOMPILING_EMULATOR={emulator};-cpu;max;-L;/usr/aarch64-linux-gnu",
        "--log-level=WARNING",
        *([f"-DTWOFOLD_DOCTEST={header}"] if header.exists() else []),
    ]
    targets = ["kernels_test_product", "kernels_test_attention", "kernels_test_self_check"]
    jobs = str(job_count())
    commands: list[list[str | Path]] = [
        configure,
        ["cmake", "--build", build, "--parallel", jobs, "--target", *targets, "--", "--quiet"],
        ["ctest", "--test-dir", build, "--output-on-failure", "-R", "|".join(targets)],
    ]
    return [Check("C++ kernels for Arm, emulated", commands, slow=True)]


def _package(context: Context) -> list[Check]:
    """The package for Linux, where Debian's tools for making one are installed."""
    if not (which("dpkg-deb") and which("objdump")):
        return []
    return [Check("package", [[context.root / "packaging" / "linux" / "build"]], slow=True)]


def _cpp_tests(context: Context, sanitizer: str) -> list[list[str | Path]]:
    build = context.root / "build" / f"tests-{sanitizer.split(',')[0] or 'plain'}"
    header = doctest_header.folder(context)
    configure = [
        *("cmake", "-S", context.root / "native", "-B", build, "-G", "Ninja"),
        *("-DTWOFOLD_EXTENSION=OFF", "-DTWOFOLD_TESTS=ON", f"-DTWOFOLD_SANITIZE={sanitizer}"),
        *("-DCMAKE_BUILD_TYPE=RelWithDebInfo", "--log-level=WARNING"),
        *([f"-DTWOFOLD_DOCTEST={header}"] if header.exists() else []),
    ]
    jobs = str(job_count())
    return [
        configure,
        ["cmake", "--build", build, "--parallel", jobs, "--", "--quiet"],
        ["ctest", "--test-dir", build, "--output-on-failure", "--parallel", jobs],
    ]
