"""A small checkout of its own for each test of the set-up."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from setup.context import Context
from setup.progress import Progress

ROOT = Path(__file__).parents[3]
Launch = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What the set-up needs of a clone, without an environment."""
    root = tmp_path / "a clone"
    root.mkdir()
    shutil.copytree(ROOT / "setup", root / "setup", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("twofold", "pyproject.toml", "requirements.lock", "requirements-dev.lock"):
        shutil.copy(ROOT / name, root / name)
    for name in ("native", "engine"):
        (root / name).mkdir()
    return root


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder to be the whole PATH, with what any system has; tests add the rest."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("sh", "dirname", "readlink"):
        found = shutil.which(name)
        assert found
        (folder / name).symlink_to(found)
    return folder


@pytest.fixture
def launch(checkout: Path, programs: Path, tmp_path: Path) -> Launch:
    """Runs `./twofold` with that PATH, an empty cache and no settings of this machine."""

    def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        base = {"PATH": str(programs), "HOME": str(tmp_path), "TWOFOLD_CACHE": str(tmp_path / "c")}
        return subprocess.run(
            [checkout / "twofold", *arguments],
            env=base | environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    return run


@pytest.fixture
def add_python(programs: Path) -> Path:
    """Puts this Python's base installation on the PATH."""
    base = Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")
    link = programs / "python3"
    link.write_text(f'#!/bin/sh\nexec {base} "$@"\n', encoding="utf-8")
    link.chmod(0o755)
    return link


@pytest.fixture
def context(tmp_path: Path) -> Context:
    """A checkout that shares this environment's programs but keeps its own notes."""
    root = tmp_path / "root"
    (root / ".venv" / "bin").mkdir(parents=True)
    (root / ".venv" / "bin" / "python").write_text(
        f'#!/bin/sh\nexec {sys.executable} "$@"\n', encoding="utf-8"
    )
    (root / ".venv" / "bin" / "python").chmod(0o755)
    for name in ("pyproject.toml", "requirements.lock", "requirements-dev.lock"):
        shutil.copy(ROOT / name, root)
    return Context(root, tmp_path / "cache", progress=Progress(io.StringIO()))


def executable(path: Path, *lines: str) -> Path:
    """Writes a shell script."""
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]), encoding="utf-8")
    path.chmod(0o755)
    return path


def alive(pid: int) -> bool:
    """Whether a process still runs (a dead one that nobody has buried does not count)."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"
