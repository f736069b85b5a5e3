"""The CUDA backend builds with a toolkit that comes without cuBLAS or the driver's stub."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest

from setup import backends, cuda_toolkit
from setup.compiler import find_compiler
from setup.context import Context
from setup.words import SetupError
from tests.unit.setup.conftest import executable


@pytest.fixture
def nvcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "cuda" / "bin").mkdir(parents=True)
    made = executable(tmp_path / "cuda" / "bin" / "nvcc", 'echo "release 13.0, V13.0.88"')
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: str(made) if name == "nvcc" else which(name))
    monkeypatch.setattr(cuda_toolkit, "_DRIVERS", ())
    return made


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """In place of the index: a package of cuBLAS with nothing in its files."""
    asked: list[str] = []

    def download(_context: Context, requirement: str, _sha256: str, folder: Path) -> Path:
        asked.append(requirement)
        wheel = folder / "cublas.whl"
        with zipfile.ZipFile(wheel, "w") as packed:
            for name in ("include/cublas_v2.h", "lib/libcublas.so.13", "lib/libcublasLt.so.13"):
                packed.writestr(f"nvidia/cu13/{name}", "")
        return wheel

    monkeypatch.setattr(cuda_toolkit, "download", download)
    return asked


def test_what_the_toolkit_lacks_is_fetched_once(
    context: Context, nvcc: Path, fetched: list[str]
) -> None:
    compiler = find_compiler()
    found = cuda_toolkit.find(context, compiler)
    assert cuda_toolkit.find(context, compiler) == found
    pins = context.pins("cublas")
    assert fetched == [f"nvidia-cublas=={pins['version']}"]
    given = dict(argument.removeprefix("-D").split("=", 1) for argument in found.arguments)
    assert given["CMAKE_CUDA_COMPILER"] == str(nvcc)
    assert Path(given["CUDA_cublas_LIBRARY"]).name == "libcublas.so.13"
    assert Path(given["CUDA_cublasLt_LIBRARY"]).name == "libcublasLt.so.13"
    assert (context.cache / "sources" / f"cublas-{pins['version']}" / "include").is_dir()
    assert Path(given["CUDA_cuda_driver_LIBRARY"]).read_bytes().startswith(b"\x7fELF")


def test_a_whole_toolkit_needs_nothing(context: Context, nvcc: Path, fetched: list[str]) -> None:
    root = nvcc.parents[1]
    (root / "include").mkdir()
    (root / "include" / "cublas_v2.h").touch()
    (root / "lib64" / "stubs").mkdir(parents=True)
    (root / "lib64" / "stubs" / "libcuda.so").touch()
    found = cuda_toolkit.find(context, find_compiler())
    assert found.arguments == [f"-DCMAKE_CUDA_COMPILER={nvcc}"]
    assert found.version == "release 13.0, V13.0.88"
    assert fetched == []


def test_for_an_older_toolkit_it_is_said_what_to_install(
    context: Context, nvcc: Path, fetched: list[str]
) -> None:
    executable(nvcc, 'echo "release 12.8, V12.8.61"')
    with pytest.raises(SetupError, match="needs cuBLAS"):
        backends.make(context, find_compiler(), "cuda")
    assert fetched == []
