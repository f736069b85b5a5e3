"""The set-up's errors and their sentences: what happened, what it means, what to do."""

from __future__ import annotations

from typing import Any

SENTENCES = {
    "backend.unknown": (
        "./twofold backend build wants the name of one backend, and knows {names}: for any "
        "graphics card, ./twofold backend build vulkan."
    ),
    "compiler.missing": (
        "No C++ compiler was found, and Twofold builds its engine for this very machine: install "
        "one (Debian and Ubuntu: apt install g++) and run the same command again."
    ),
    "compiler.too_old": (
        "{compiler} is too old for C++20: install GCC 11 or clang 14, or newer, or name one in CXX "
        "(and its C twin in CC), and run the same command again."
    ),
    "compiler.broken": (
        "{compiler} cannot build even a one-line program ({detail}): repair it (Debian and "
        "Ubuntu: apt install g++) and run the same command again."
    ),
    "cuda.missing": (
        "The CUDA backend needs NVIDIA's compiler, nvcc, and it was not found: install the CUDA "
        "toolkit (12.8 or newer), put its bin folder on PATH, and run the same command again."
    ),
    "cuda.no_cublas": (
        "The CUDA backend needs cuBLAS, and the toolkit of {nvcc} comes without it: install its "
        "cuBLAS development package (libcublas-dev of NVIDIA's repository), and run the same "
        "command again."
    ),
    "disk.full": (
        "The disk that holds {folder} is full or nearly so, and the set-up needs {needed}: free "
        "some space, or move the cache with TWOFOLD_CACHE, and run the same command again; what "
        "is done is kept."
    ),
    "doctest.missing": (
        "The C++ tests need the doctest header and it could not be fetched: install it (Debian "
        "and Ubuntu: apt update && apt install doctest-dev) and run the same command again."
    ),
    "folder.not_writable": (
        "{path} cannot be written: give yourself the right to, or move the cache with "
        "TWOFOLD_CACHE, and run the same command again."
    ),
    "hash.mismatch": (
        "What the package index sent for {what} is not what was pinned, so it was thrown away: "
        "run the same command again, and if it happens again do not trust that index."
    ),
    "library.unfit": (
        "The model library does not run right on this machine, even built without special "
        "instructions ({reason} in {kernel}), so it is not used: try another compiler with CXX "
        "and CC, and please report {log}."
    ),
    "network.unreachable": (
        "The package index could not be reached for {what}: check the network (and pip's proxy "
        "and index settings) and run the same command again; what is done is kept."
    ),
    "package.not_found": (
        "The package index does not have {what} for this Python and system: check pip's index "
        "settings, or use Python 3.11 to 3.13, and run the same command again. Details: {log}"
    ),
    "python.no_headers": (
        "{python} comes without its C headers, which building the engine needs: install them "
        "(Debian and Ubuntu: apt install python3-dev) and run the same command again."
    ),
    "python.no_venv": (
        "{python} cannot make virtual environments: install that part of it (Debian and Ubuntu: "
        "apt install python3-venv) and run the same command again."
    ),
    "step.failed": (
        "{step} failed ({detail}): run the same command again, and if it fails again please "
        "report {log}."
    ),
    "vulkan.headers_old": (
        "The Vulkan backend needs Vulkan headers of {oldest} or newer and the SPIR-V headers, and "
        "this system's are older or missing: install newer ones (Debian and Ubuntu: apt install "
        "libvulkan-dev spirv-headers) and run the same command again."
    ),
    "vulkan.missing": (
        "The Vulkan backend needs Vulkan's loader and the shader compiler glslc, and one was not "
        "found: install them (Debian and Ubuntu: apt install libvulkan-dev glslc) and run the same "
        "command again."
    ),
}


class SetupError(Exception):
    """An expected failure of the set-up: a searchable `code`, and the facts of its sentence."""

    def __init__(self, code: str, **data: Any) -> None:
        super().__init__(code, data)
        self.code = code
        self.data = data

    def __str__(self) -> str:
        return SENTENCES[self.code].format(**self.data)
