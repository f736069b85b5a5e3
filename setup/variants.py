"""How the package's model library is configured: for any machine, its CPU part in variants."""

from __future__ import annotations

import platform

# From what every x86-64 processor of the last ten years has, to AMX. The names are ggml's. Each is
# the CPU backend compiled once more, so only those are built whose instructions make a difference
# in practice; a processor between two of them takes the older one.
VARIANTS = (
    "sse42", "sandybridge", "haswell", "alderlake", "skylakex", "icelake", "zen4",
    "sapphirerapids",
)  # fmt: skip
NOT_FOR_MSVC = {"zen4", "sapphirerapids"}
ARGUMENTS = (
    *("-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=ON", "-DGIT_EXE=OFF"),
    *("-DGGML_NATIVE=OFF", "-DGGML_BACKEND_DL=ON", "-DGGML_CPU_ALL_VARIANTS=ON"),
    *(f"-DLLAMA_BUILD_{part}=OFF" for part in ("COMMON", "TESTS", "TOOLS", "EXAMPLES", "SERVER")),
)


def arguments(system: str, commit: str) -> list[str]:
    """CMake's arguments on a system (as sys.platform names it); the include file is not among
    them."""
    beside = {"win32": [], "darwin": ["@loader_path"]}.get(system, ["$ORIGIN"])
    place = [f"-DCMAKE_INSTALL_RPATH={one}" for one in beside]
    return [
        *(*ARGUMENTS, f"-DLLAMA_BUILD_COMMIT={commit}", *place),
        *(["-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON"] if place else []),
    ]


def variants(system: str, machine: str = "") -> tuple[str, ...]:
    """Which to build; none: all that ggml has for the machine."""
    if (machine or platform.machine()) not in ("x86_64", "AMD64") or system == "darwin":
        return ()
    return tuple(one for one in VARIANTS if system != "win32" or one not in NOT_FOR_MSVC)
