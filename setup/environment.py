"""The virtual environment and the pinned packages in it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import sysconfig
from pathlib import Path

from setup.context import GIB, Context, digest
from setup.words import SetupError

RUNNING, DEVELOPING = "requirements.lock", "requirements-dev.lock"


def wanted(context: Context, lock: str) -> str:
    """What `Context.done(lock)` says once the lock file's packages are installed here."""
    text = (context.root / lock).read_bytes()
    return digest(text, sysconfig.get_python_version(), str(context.root))


def ready(context: Context, *, developing: bool) -> bool:
    locks = (RUNNING, DEVELOPING) if developing else (RUNNING,)
    return context.python.exists() and all(
        context.done(lock) == wanted(context, lock) for lock in locks
    )


def require_python(*, headers: bool) -> None:
    """Raises SetupError python.no_venv or python.no_headers if this Python lacks a part."""
    if importlib.util.find_spec("ensurepip") is None or importlib.util.find_spec("venv") is None:
        raise SetupError("python.no_venv", python=sys.executable)
    if headers and not Path(sysconfig.get_path("include"), "Python.h").exists():
        raise SetupError("python.no_headers", python=sys.executable)


def make(context: Context, *, developing: bool) -> None:
    """Makes or repairs the environment and installs the locked packages."""
    context.need_space(context.root, GIB * (3 if developing else 1))
    if not _usable(context):
        # From the base installation: the old environment may be what this process runs in.
        version = f"python{sysconfig.get_python_version()}"
        base = Path(sys.base_prefix, "bin", version)
        python = base if base.exists() else Path(sys.executable)
        with context.progress.step("making the virtual environment"):
            context.run(
                [python, "-m", "venv", "--clear", context.venv],
                what="making the virtual environment",
                log="venv",
            )
        context.record("root", str(context.root))
    lock = DEVELOPING if developing else RUNNING
    with context.progress.step("installing Python packages", expected_s=60 if developing else 30):
        context.run(
            [*pip(context), "install", "--no-deps", "--require-hashes", "-r", context.root / lock],
            what="the Python packages",
            log="packages",
        )
    for done in {lock, RUNNING}:
        context.record(done, wanted(context, done))


def pip(context: Context) -> list[str | Path]:
    """The start of a pip command in the environment."""
    return [context.python, "-m", "pip", "--quiet", "--no-input", "--disable-pip-version-check"]


def _usable(context: Context) -> bool:
    """Whether the environment runs, is of this Python and place, and has pip."""
    if not context.python.exists():
        return False
    code = "import pip, sys, sysconfig; print(sysconfig.get_python_version(), sys.prefix)"
    found = subprocess.run(
        [context.python, "-c", code], capture_output=True, text=True, check=False
    )
    # Its scripts name the folder they were made in, so a moved checkout needs a new one.
    made_for = f"{sysconfig.get_python_version()} {context.venv}\n"
    moved = context.done("root") not in (None, str(context.root))
    return found.returncode == 0 and found.stdout == made_for and not moved
