"""Backends' files that are real libraries, made for a test, and the RPC backend itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from setup import backends
from setup.compiler import find_compiler
from setup.context import Context, cache_folder
from tests.support.backend_file import make_backend_file

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
        return make_backend_file(tmp_path, code, *flags, name=name, version=version)

    return make


@pytest.fixture(scope="session")
def rpc_file() -> Path:
    """The RPC backend, built into the cache if it is not there: a minute, once."""
    context = Context(ROOT, cache_folder(os.environ))
    found = backends.built(context, "rpc")
    return found or backends.make(context, find_compiler(), "rpc")
