"""Backends' files that are real libraries, made for a test, and the RPC backend itself."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.native import pinned_version
from setup import backends
from setup.compiler import find_compiler
from setup.context import Context, cache_folder

MakeBackend = Callable[..., Path]
ROOT = Path(__file__).parents[3]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing is installed here yet."""
    monkeypatch.setenv("TWOFOLD_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def make_backend(tmp_path: Path) -> MakeBackend:
    """Compiles C code to a backend's file, stamped for the library in use."""

    def make(code: str, *flags: str, name: str = "odd", version: str | None = None) -> Path:
        source, bare = tmp_path / f"{name}.c", tmp_path / f"bare-{name}.so"
        source.write_text(code, encoding="utf-8")
        command = [find_compiler().c, "-shared", "-fPIC", "-o", bare, source, *flags]
        subprocess.run(command, check=True)
        target = tmp_path / f"libggml-{name}.so"
        facts = {"backend": name, "version": version or pinned_version(), "commit": "test"}
        backends.stamp(bare, target, facts)
        return target

    return make


@pytest.fixture(scope="session")
def rpc_file() -> Path:
    """The RPC backend, built into the cache if it is not there: a minute, once."""
    context = Context(ROOT, cache_folder(os.environ))
    found = backends.built(context, "rpc")
    return found or backends.make(context, find_compiler(), "rpc")
