"""The pinned model library: its sources, a build for this machine, and proof that it runs.

GCC drops the stores to the tile configuration that AMX code keeps on the stack, and the library
then dies of an illegal instruction at the first prompt (llama.cpp pull request 26954). So GCC
builds go without the two passes that do it, and whatever the compiler, a library is used only
after every kernel has run in a child process. If one fails, the library is built once more
without `-march=native`, with the vector instructions of this CPU named one by one and AMX left
out: slower on a CPU with AMX, but it cannot meet the fault. If that fails too, set-up stops.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import tarfile
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from setup.compiler import Compiler
from setup.context import GIB, Context, digest, file_sha256, write_whole
from setup.environment import pip
from setup.words import SetupError

GCC_FLAGS = "-fno-tree-dse -fno-dse"
# Never ask git: the sources are not its, and the cache may lie inside somebody's repository.
COMMON_ARGS = ("-DLLAVA_BUILD=OFF", "-DGIT_EXE=OFF")
# CMake option of ggml: the CPU features (as Linux names them) that it may use.
VECTOR_OPTIONS = {
    "GGML_SSE42": {"sse4_2"},
    "GGML_AVX": {"avx"},
    "GGML_AVX2": {"avx2"},
    "GGML_BMI2": {"bmi2"},
    "GGML_FMA": {"fma"},
    "GGML_F16C": {"f16c"},
    "GGML_AVX512": {"avx512f", "avx512cd", "avx512vl", "avx512dq", "avx512bw"},
    "GGML_AVX512_VBMI": {"avx512vbmi"},
    "GGML_AVX512_VNNI": {"avx512_vnni"},
    "GGML_AVX512_BF16": {"avx512_bf16"},
}
# Seconds of one core; measured with GCC 12.
BUILD_CORE_S = 720


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what a build of the library is; equal recipes share one wheel."""

    name: str
    version: str
    sdist_sha256: str
    cmake_args: str
    cxxflags: str
    compiler: str
    cpu: str

    @property
    def key(self) -> str:
        return digest(json.dumps(asdict(self), sort_keys=True))


def cpu_features() -> set[str]:
    """The instruction sets this CPU offers, as the system names them."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return set()
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    return set(found.group(1).split()) if found else set()


def cpu_name() -> str:
    return digest(platform.machine(), " ".join(sorted(cpu_features())))


def recipes(pins: dict[str, str], compiler: Compiler) -> tuple[Recipe, Recipe]:
    """The build to try first, and the safe one."""
    common = (*COMMON_ARGS, f"-DLLAMA_BUILD_COMMIT={pins['commit']}")
    features = cpu_features()
    named = [
        f"-D{option}={'ON' if needed <= features else 'OFF'}"
        for option, needed in VECTOR_OPTIONS.items()
    ]

    def recipe(name: str, *arguments: str) -> Recipe:
        return Recipe(
            name=name,
            version=pins["version"],
            sdist_sha256=pins["sdist_sha256"],
            cmake_args=" ".join((*common, *arguments)),
            cxxflags=GCC_FLAGS if compiler.kind == "GCC" else "",
            compiler=compiler.name,
            cpu=cpu_name(),
        )

    return recipe("native"), recipe("without AMX", "-DGGML_NATIVE=OFF", *named)


def wanted(context: Context) -> dict[str, str]:
    """What must be true of the installed library; a newer compiler does not make it stale."""
    pins = context.pins("llama")
    return {"version": pins["version"], "sdist_sha256": pins["sdist_sha256"], "cpu": cpu_name()}


def ready(context: Context) -> bool:
    done = context.done("library")
    return (
        done is not None and wanted(context).items() <= done.items() and sources(context).exists()
    )


def sources(context: Context) -> Path:
    """The unpacked source distribution; llama.cpp is in its `vendor/llama.cpp`."""
    return context.cache / "sources" / f"llama-cpp-python-{context.pins('llama')['version']}"


def make(context: Context, compiler: Compiler) -> None:
    """Installs a build of the library that has been seen to run here.

    Raises SetupError library.unfit if neither recipe gives one.
    """
    fetch_sources(context)
    verdict: dict[str, Any] = {}
    for recipe in recipes(context.pins("llama"), compiler):
        folder = context.cache / "library" / recipe.key
        stored = folder / "self_check.json"
        verdict = json.loads(stored.read_text(encoding="utf-8")) if stored.exists() else {}
        if verdict and not verdict["healthy"]:
            continue
        wheel = next(folder.glob("*.whl"), None) or _build(context, recipe, compiler, folder)
        with context.progress.step("installing the model library"):
            context.run(
                [*pip(context), "install", "--no-deps", "--force-reinstall", wheel],
                what="installing the model library",
                log="library-install",
            )
        if not verdict:
            verdict = _self_check(context)
            write_whole(stored, json.dumps(verdict, indent=1))
        if verdict["healthy"]:
            context.record("library", asdict(recipe))
            return
        context.progress.say(
            f"The library built as '{recipe.name}' fails here ({verdict['reason']} in "
            f"{verdict['kernel']}), so it is not used."
        )
    raise SetupError(
        "library.unfit",
        reason=verdict["reason"],
        kernel=verdict["kernel"],
        log=context.logs / "library-build.log",
    )


def download(context: Context, requirement: str, sha256: str, folder: Path, *options: str) -> Path:
    """Fetches one package file of exactly that hash into `folder`; raises SetupError."""
    pinned = folder / "pinned.txt"
    pinned.write_text(f"{requirement} --hash=sha256:{sha256}\n", encoding="utf-8")
    context.run(
        [
            *(*pip(context), "download", "--no-deps", "--require-hashes", *options),
            *("--dest", folder, "-r", pinned),
        ],
        what=requirement,
        log="download",
        # Reading a source distribution's metadata runs its build backend, which looks for CMake.
        extra_environ={"PATH": build_path(context)},
    )
    pinned.unlink()
    (file,) = folder.iterdir()
    if file_sha256(file) != sha256:
        raise SetupError("hash.mismatch", what=requirement)
    return file


def build_path(context: Context) -> str:
    """PATH with the environment's own cmake and ninja first."""
    return f"{context.venv / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"


def fetch_sources(context: Context) -> None:
    """Unpacks the pinned source distribution into the cache, once."""
    target = sources(context)
    if target.exists():
        return
    pins = context.pins("llama")
    context.need_space(context.cache, GIB)
    target.parent.mkdir(parents=True, exist_ok=True)
    with (
        context.progress.step("fetching the model library's sources (77 MB)", expected_s=30),
        tempfile.TemporaryDirectory(dir=target.parent) as folder,
    ):
        name = f"llama-cpp-python=={pins['version']}"
        options = ("--no-binary", ":all:", "--no-build-isolation")
        archive = download(context, name, pins["sdist_sha256"], Path(folder), *options)
        with tarfile.open(archive) as packed:
            # Older patch releases have no filters; the archive's hash is known either way.
            packed.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
            for member in packed:
                context.progress.tick()
                # The archive carries its repositories' histories, which nothing here reads.
                if ".git" not in Path(member.name).parts:
                    packed.extract(member, folder)
        archive.unlink()
        (unpacked,) = Path(folder).iterdir()
        unpacked.rename(target)


def _build(context: Context, recipe: Recipe, compiler: Compiler, folder: Path) -> Path:
    """Builds the wheel and keeps it in `folder`; an interrupted build goes on where it stopped."""
    context.need_space(context.cache, GIB)
    folder.mkdir(parents=True, exist_ok=True)
    build, made = folder / "build", folder / "made"
    jobs = job_count()

    def show(line: str) -> None:
        if step := re.search(r"\[(\d+)/(\d+)\]", line):
            context.progress.count(int(step.group(1)), int(step.group(2)))

    # The build installs into its sources as well; what an earlier one left must not be packed.
    shutil.rmtree(sources(context) / "llama_cpp" / "lib", ignore_errors=True)
    started = time.monotonic()
    title = f"building the model library ({recipe.name})"
    with context.progress.step(title, expected_s=BUILD_CORE_S / jobs):
        context.run(
            [
                *(*pip(context), "-vv", "wheel", "--no-deps", "--no-build-isolation"),
                *("--config-settings", f"build-dir={build}", "--wheel-dir", made),
                sources(context),
            ],
            what="building the model library",
            log="library-build",
            extra_environ=compiler.environ
            | {
                "CXXFLAGS": recipe.cxxflags,
                "CMAKE_ARGS": recipe.cmake_args,
                "CMAKE_GENERATOR": "Ninja",
                "CMAKE_BUILD_PARALLEL_LEVEL": str(jobs),
                "PATH": build_path(context),
            },
            on_line=show,
        )
    (wheel,) = made.glob("*.whl")
    facts = asdict(recipe) | {"build_s": round(time.monotonic() - started)}
    write_whole(folder / "recipe.json", json.dumps(facts, indent=1))
    kept = wheel.rename(folder / wheel.name)
    for leftover in (build, made):
        shutil.rmtree(leftover)
    return kept


def job_count() -> int:
    """As many compilers at once as there are cores, and a gibibyte of memory for each."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(len(os.sched_getaffinity(0)), memory // GIB))


def _self_check(context: Context) -> dict[str, Any]:
    with context.progress.step("checking that the model library runs on this machine"):
        output = context.run(
            [context.python, "-P", context.root / "engine" / "doctor" / "self_check.py"],
            what="checking the model library",
            log="library-check",
        )
    verdict: dict[str, Any] = json.loads(output)
    return verdict
