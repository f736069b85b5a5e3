"""What building the CUDA backend needs of NVIDIA's toolkit, and parts that may lack in it."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from setup.compiler import Compiler
from setup.context import GIB, Context
from setup.library import download
from setup.words import SetupError

_LIBRARIES = ("cublas", "cublasLt")
_DRIVERS = ("usr/lib/libcuda.so", "usr/lib64/libcuda.so", "usr/lib/*/libcuda.so")


@dataclass(frozen=True)
class Toolkit:
    """`arguments` tell CMake where things are; `version` is what the compiler says of itself."""

    version: str
    arguments: list[str]


def find(context: Context, compiler: Compiler) -> Toolkit:
    """Fetches cuBLAS if need be. Raises SetupError cuda.missing or cuda.no_cublas."""
    found = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    if found is None:
        raise SetupError("cuda.missing")
    nvcc = Path(found)
    version = _version(nvcc)
    arguments = [f"-DCMAKE_CUDA_COMPILER={nvcc}"]
    if not has_cublas(nvcc):
        if not _fits(context, version):
            raise SetupError("cuda.no_cublas", nvcc=nvcc)
        arguments += _cublas(context)
    if not has_driver_library(nvcc):
        arguments.append(f"-DCUDA_cuda_driver_LIBRARY={_driver_stub(context, compiler)}")
    return Toolkit(version, arguments)


def has_cublas(nvcc: Path) -> bool:
    """Whether cuBLAS's header is in the compiler's toolkit, or where distributions put it."""
    places = [
        folder / "cublas_v2.h"
        for root in _roots(nvcc)
        for folder in (root / "include", *(root / "targets").glob("*/include"))
    ]
    return any(place.exists() for place in (*places, Path("/usr/include/cublas_v2.h")))


def has_driver_library(nvcc: Path) -> bool:
    """Whether there is a libcuda.so to link with: the driver's, or the toolkit's stub."""
    stubs = [
        file
        for root in _roots(nvcc)
        for pattern in ("lib*/stubs/libcuda.so", "targets/*/lib/stubs/libcuda.so")
        for file in root.glob(pattern)
    ]
    installed = [file for pattern in _DRIVERS for file in Path("/").glob(pattern)]
    return bool(stubs or installed)


def _roots(nvcc: Path) -> tuple[Path, Path]:
    return nvcc.parents[1], nvcc.resolve().parents[1]


def _version(nvcc: Path) -> str:
    done = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=False)
    return " ".join(done.stdout.split("\n")[-3:]).strip()


def _fits(context: Context, version: str) -> bool:
    """The pinned cuBLAS is for toolkits of its own major version."""
    major = context.pins("cublas")["version"].split(".")[0]
    return re.search(rf"release {major}\.", version) is not None


def _cublas(context: Context) -> list[str]:
    """From NVIDIA's package on the index, unpacked below the cache."""
    pins = context.pins("cublas")
    target = context.cache / "sources" / f"cublas-{pins['version']}"
    if not target.exists():
        context.need_space(context.cache, 2 * GIB)
        target.parent.mkdir(parents=True, exist_ok=True)
        with (
            context.progress.step("fetching cuBLAS (400 MB)", expected_s=60),
            tempfile.TemporaryDirectory(dir=target.parent) as folder,
        ):
            name = f"{pins['package']}=={pins['version']}"
            wheel = download(context, name, pins["wheel_sha256"], Path(folder))
            unpacked = Path(folder, "unpacked")
            with zipfile.ZipFile(wheel) as packed:
                packed.extractall(unpacked)
            (unpacked / pins["folder"]).rename(target)
    libraries = {name: next((target / "lib").glob(f"lib{name}.so*")) for name in _LIBRARIES}
    return [
        *(f"-DCUDA_{name}_LIBRARY={file}" for name, file in libraries.items()),
        f'-DCMAKE_CUDA_FLAGS=-isystem "{target / "include"}"',
    ]


def _driver_stub(context: Context, compiler: Compiler) -> Path:
    """An empty library of the driver's name; at run time the card's own takes its place."""
    stub = context.cache / "sources" / "cuda-driver-stub" / "libcuda.so"
    if not stub.exists():
        stub.parent.mkdir(parents=True, exist_ok=True)
        context.run(
            [
                *(compiler.c, "-shared", "-x", "c", "/dev/null"),
                *("-Wl,-soname,libcuda.so.1", "-o", stub),
            ],
            what="making a stand-in for the CUDA driver's library",
            log="cuda-driver-stub",
        )
    return stub
