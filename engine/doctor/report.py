"""Gathers what the doctor reports: the machine, the library, the folders, and what is wrong."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
from pydantic import BaseModel

from engine import native, paths
from engine.doctor.self_check import self_check
from engine.errors import NativeError, TwofoldError
from engine.kernels.check import Verdict, checked_kernels
from engine.words import sentence

GIB = 1 << 30
# Below this much free space, not even a small model's prefiller fits.
LITTLE_SPACE = 2 * GIB
# Instruction sets that decide which kernels the library and the engine can use.
TELLING_FEATURES = re.compile(r"sse4_2|avx.*|fma|f16c|bmi2|amx.*|asimd.*|sve.*|i8mm|bf16")


class FolderNotWritable(TwofoldError):
    """A folder of Twofold's cannot be written. Data: `path`."""

    code = "doctor.folder_not_writable"


class LittleSpace(TwofoldError):
    """A folder's disk is nearly full. Data: `path`, `free` in bytes."""

    code = "doctor.little_space"


class LibraryUnfit(TwofoldError):
    """The self-check failed. Data: its `reason`, `kernel`, `detail`, and the `cache` folder."""

    code = "library.unfit"


class Problem(BaseModel):
    """Something wrong, as a code and a sentence; `data` holds the sentence's facts."""

    code: str
    sentence: str
    data: dict[str, Any] = {}


class Kernel(BaseModel):
    """A matrix kernel of the library that ran here; `error` is relative to plain arithmetic."""

    type: str
    buffer: str
    error: float


class Device(BaseModel):
    """A device of the library's registry; memory in bytes."""

    name: str
    description: str
    type: str
    memory_free: int
    memory_total: int


class LibraryBuild(BaseModel):
    """How the set-up built the library."""

    name: str
    cmake_args: str
    cxxflags: str
    compiler: str


class Library(BaseModel):
    """The installed model library; the fields that a failed self-check leaves open are None."""

    version: str | None
    wanted: str
    commit: str | None
    build: LibraryBuild | None
    system_info: str | None
    # The CPU backend's variant in use; empty where the library has one alone.
    cpu_variant: str = ""
    kernels: list[Kernel]


class Folder(BaseModel):
    """One of Twofold's folders; `free_bytes` on its disk."""

    name: str
    path: Path
    exists: bool
    free_bytes: int


class Machine(BaseModel):
    """The computer; memory in bytes."""

    system: str
    cpu: str
    cores: int
    features: list[str]
    memory_total: int
    memory_available: int


class Report(BaseModel):
    """All that `./twofold doctor` knows."""

    healthy: bool
    problems: list[Problem]
    twofold: str
    python: str
    python_path: str
    machine: Machine
    library: Library
    own_kernels: list[Verdict]
    devices: list[Device]
    folders: list[Folder]


def report() -> Report:
    """Looks at everything; takes some seconds, because every kernel of the library runs once."""
    checked = self_check()
    problems: list[TwofoldError] = []
    own_kernels: list[Verdict] = []
    if checked["healthy"]:
        problems += _loading_problems()
        if not problems:
            own_kernels = checked_kernels()
    else:
        failure = {name: checked[name] for name in ("reason", "kernel", "detail")}
        problems.append(LibraryUnfit(cache=str(paths.cache_folder()), **failure))
    folders = list(_folders())
    problems += _folder_problems(folders)
    return Report(
        healthy=not problems,
        problems=[_problem(error) for error in problems],
        twofold=importlib.metadata.version("twofold"),
        python=platform.python_version(),
        python_path=sys.executable,
        machine=_machine(),
        library=_library(checked, native.native().cpu_variant() if own_kernels else ""),
        own_kernels=own_kernels,
        devices=checked.get("devices", []),
        folders=folders,
    )


def _loading_problems() -> list[TwofoldError]:
    """Loads the library and the extension into this process, which the self-check made safe."""
    try:
        native.native()
    except TwofoldError as error:
        return [error]
    except ImportError as error:
        return [NativeError("library.extension_broken", {"detail": str(error)})]
    return []


def _library(checked: dict[str, Any], variant: str) -> Library:
    try:
        version = importlib.metadata.version("llama-cpp-python")
    except importlib.metadata.PackageNotFoundError:
        version = None
    return Library(
        version=version,
        wanted=native.pinned_version(),
        commit=checked.get("commit"),
        build=_build(),
        system_info=checked.get("system_info"),
        cpu_variant=variant,
        kernels=checked.get("kernels", []),
    )


def _build() -> LibraryBuild | None:
    """What the set-up noted in the environment; None where something else installed the library."""
    try:
        notes = json.loads(Path(sys.prefix, "twofold.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    noted = notes.get("library")
    return LibraryBuild.model_validate(noted) if noted else None


def _machine() -> Machine:
    try:
        info = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        info = ""
    name = re.search(r"^model name\s*:\s*(.*)$", info, re.MULTILINE)
    flags = re.search(r"^(?:flags|Features)\s*:(.*)$", info, re.MULTILINE)
    found = flags.group(1).split() if flags else []
    memory = psutil.virtual_memory()
    return Machine(
        system=platform.platform(),
        cpu=name.group(1) if name else platform.processor(),
        cores=len(psutil.Process().cpu_affinity() or []) or os.cpu_count() or 1,
        features=sorted(feature for feature in found if TELLING_FEATURES.fullmatch(feature)),
        memory_total=memory.total,
        memory_available=memory.available,
    )


def _folders() -> Iterator[Folder]:
    named = {
        "data": paths.data_folder(),
        "cache": paths.cache_folder(),
        "config": paths.config_folder(),
        "logs": paths.log_folder(),
    }
    for name, path in named.items():
        free = shutil.disk_usage(_nearest(path)).free
        yield Folder(name=name, path=path, exists=path.is_dir(), free_bytes=free)


def _folder_problems(folders: list[Folder]) -> Iterator[TwofoldError]:
    for folder in folders:
        nearest = _nearest(folder.path)
        if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
            yield FolderNotWritable(path=str(folder.path))
        elif folder.name in ("data", "cache") and folder.free_bytes < LITTLE_SPACE:
            yield LittleSpace(path=str(folder.path), free=folder.free_bytes)


def _nearest(path: Path) -> Path:
    """The path, or the closest folder above it that exists: where it would be made."""
    return next(place for place in (path, *path.absolute().parents) if place.exists())


def _problem(error: TwofoldError) -> Problem:
    return Problem(code=error.code, sentence=sentence(error), data=error.data)
