"""Loads the pinned library, then the native extension that shares its one copy."""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.metadata
import importlib.util
import os
from pathlib import Path
from types import ModuleType

from engine import pinned
from engine.errors import TwofoldError

# Threads that wait for each other spin this often before they sleep. OpenMP's default spins for
# milliseconds: beside any other busy program, a token then takes ten times as long.
OPENMP_SPIN_COUNT = "10000"


class LibraryMissing(TwofoldError):
    """llama-cpp-python is not installed, or its library is not where it should be."""

    code = "library.missing"


class LibraryWrongVersion(TwofoldError):
    """Another version than the pinned one; the extension reads private structures."""

    code = "library.wrong_version"


def pinned_version() -> str:
    """The llama-cpp-python version that this package was built for, from its own metadata."""
    if found := pinned.version():
        return found
    raise LibraryMissing(wanted="a pinned version")


def library_folder() -> Path:
    """The folder of the pinned package's shared libraries, found without importing it."""
    spec = importlib.util.find_spec("llama_cpp")
    if spec is None or not spec.submodule_search_locations:
        raise LibraryMissing(wanted=pinned_version())
    return Path(spec.submodule_search_locations[0]) / "lib"


def cpu_variant_file() -> Path | None:
    """The file of the CPU variant in use; None where the library comes with its CPU backend."""
    variant: str = native().cpu_variant()
    return library_folder() / f"libggml-cpu-{variant}.so" if variant else None


@functools.cache
def native() -> ModuleType:
    """`engine._native`, loaded once.

    Raises LibraryMissing, LibraryWrongVersion, or a NativeError cpu.*. Where the CPU backend is
    several variants, the best for this processor is opened, or the one that
    `TWOFOLD_CPU_VARIANT` names. The library is opened by the path that
    `llama_cpp` itself uses, so that a later import of it finds this copy and not a second one.
    GPU backends that are installed and pass their self-check are registered with it.
    """
    from engine.backends.registration import register_backends  # which needs this module

    folder = library_folder()
    wanted = pinned_version()
    found = importlib.metadata.version("llama-cpp-python")
    if found != wanted:
        raise LibraryWrongVersion(found=found, wanted=wanted)
    library = folder / "libllama.so"
    if not library.exists():
        raise LibraryMissing(wanted=pinned_version())
    os.environ.setdefault("GOMP_SPINCOUNT", OPENMP_SPIN_COUNT)  # read when OpenMP loads
    handle = ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    module = importlib.import_module("engine._native")
    module.require_pinned_library()
    module.load_cpu_backend(str(folder), os.environ.get("TWOFOLD_CPU_VARIANT", ""))
    register_backends(handle)
    return module
