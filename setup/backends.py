"""GPU backends as add-on libraries: built from the pinned sources, beside the pinned CPU build.

A backend is a file of its own that the unmodified library opens while it runs. It is built once,
into the cache, by version and flags, for any processor of this machine's kind and with no path of
this machine in it, so that the package can carry it. `stamp` writes into the file what it was built
for, so that `backend install` can refuse one that fits another version of the library.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from setup import cuda_toolkit, library, vulkan_headers
from setup.compiler import Compiler
from setup.context import GIB, Context, digest, write_whole
from setup.locks import locked
from setup.words import SetupError

# The section of the file that holds the stamp; `engine.backends.stamp` reads it.
SECTION = ".twofold"
CUDA_ARCHITECTURES = "86-real;89-real;120a-real"
COMMON_ARGS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DBUILD_SHARED_LIBS=ON",
    "-DGGML_BACKEND_DL=ON",
    "-DGGML_CPU=OFF",
    "-DGGML_NATIVE=OFF",
    "-DGGML_CCACHE=OFF",
    "-DGIT_EXE=OFF",
    # It must find the copy that the library has opened already, never one beside itself.
    "-DCMAKE_SKIP_RPATH=ON",
    "-DLLAMA_BUILD_COMMON=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_TOOLS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_SERVER=OFF",
)


@dataclass(frozen=True)
class Kind:
    """A backend that can be built; `core_s`: seconds of one core, measured with GCC 12."""

    name: str
    option: str
    core_s: float
    space: int

    @property
    def target(self) -> str:
        return f"ggml-{self.name}"


KINDS = {
    kind.name: kind
    for kind in (
        Kind("rpc", "GGML_RPC", 60, GIB // 4),
        Kind("vulkan", "GGML_VULKAN", 600, GIB),
        Kind("cuda", "GGML_CUDA", 7200, 3 * GIB),
    )
}


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what a backend file is; equal recipes share one file."""

    backend: str
    version: str
    commit: str
    sdist_sha256: str
    machine: str
    cmake_args: str
    compiler: str
    tools: str

    @property
    def key(self) -> str:
        return digest(json.dumps(asdict(self), sort_keys=True))


def folder(context: Context) -> Path:
    """Where built backends are kept: `<kind>/<key>/libggml-<kind>.so` and its `recipe.json`."""
    return context.cache / "backends"


def built(context: Context, name: str) -> Path | None:
    """The newest file of that kind for the pinned library; a newer compiler makes none stale."""
    pins = context.pins("llama")
    wanted = {"sdist_sha256": pins["sdist_sha256"], "machine": platform.machine()}
    found: list[Path] = []
    for recipe in (folder(context) / name).glob("*/recipe.json"):
        facts = json.loads(recipe.read_text(encoding="utf-8"))
        file = recipe.with_name(f"libggml-{name}.so")
        if file.exists() and wanted.items() <= facts.items():
            found.append(file)
    return max(found, key=lambda file: file.stat().st_mtime, default=None)


def make(
    context: Context, compiler: Compiler, name: str, *, architectures: str | None = None
) -> Path:
    """Builds the backend if it is not in the cache; an interrupted build goes on where it
    stopped. Raises SetupError."""
    kind = KINDS[name]
    needs = _needs(context, compiler, name, architectures)
    pins = context.pins("llama")
    recipe = Recipe(
        backend=name,
        version=pins["version"],
        commit=pins["commit"],
        sdist_sha256=pins["sdist_sha256"],
        machine=platform.machine(),
        cmake_args=" ".join((f"-D{kind.option}=ON", *COMMON_ARGS, *needs.options)),
        compiler=compiler.name,
        tools=needs.tools,
    )
    place = folder(context) / name / recipe.key
    file = place / f"lib{kind.target}.so"
    with locked(place / "lock", lambda: _say_waiting(context, name)) as held:
        if file.exists():
            return file
        context.need_space(context.cache, kind.space)
        before, context.held_locks = context.held_locks, [*context.held_locks, held]
        try:
            _build(context, compiler, kind, recipe, needs.places, place / "build")
        finally:
            context.held_locks = before
        stamp(place / "build" / "bin" / file.name, place / "stamped.so", asdict(recipe))
        facts = asdict(recipe) | {"build_s": round(_spent(place / "build"))}
        write_whole(place / "recipe.json", json.dumps(facts, indent=1))
        (place / "stamped.so").rename(file)
        shutil.rmtree(place / "build")
    return file


def stamp(source: Path, target: Path, facts: dict[str, str]) -> None:
    """Copies the library `source` with `facts` in a section of its own, debug symbols left out.

    Raises SetupError step.failed where binutils are missing or fail.
    """
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        note = Path(scratch, "stamp.json")
        note.write_text(json.dumps(facts, sort_keys=True), encoding="utf-8")
        command = ["objcopy", "--strip-debug", "--add-section", f"{SECTION}={note}"]
        try:
            done = subprocess.run(
                [*command, source, target], capture_output=True, text=True, check=False
            )
        except FileNotFoundError as error:
            raise SetupError("compiler.missing") from error
    if done.returncode != 0:
        raise SetupError("step.failed", step="Stamping", detail=done.stderr.strip(), log=source)


@dataclass(frozen=True)
class Needs:
    """CMake's arguments for a kind: `options` decide what is built, `places` only where things
    are found. `tools`: the versions of what is used besides the compiler."""

    options: Sequence[str] = ()
    places: Sequence[str] = ()
    tools: str = ""


def _needs(context: Context, compiler: Compiler, name: str, architectures: str | None) -> Needs:
    """Raises SetupError if something lacks."""
    if name == "vulkan":
        found = vulkan_headers.find(context)
        tools = f"{_first_line(['glslc', '--version'])}, headers {found.version}"
        return Needs(places=found.arguments, tools=tools)
    if name == "cuda":
        toolkit = cuda_toolkit.find(context, compiler)
        wanted = architectures or CUDA_ARCHITECTURES
        return Needs(
            options=[f"-DCMAKE_CUDA_ARCHITECTURES={wanted}"],
            places=toolkit.arguments,
            tools=toolkit.version,
        )
    return Needs(options=["-DGGML_RPC_RDMA=OFF"])


def _build(
    context: Context,
    compiler: Compiler,
    kind: Kind,
    recipe: Recipe,
    places: Sequence[str],
    build: Path,
) -> None:
    jobs = library.job_count()
    flags = f"-ffile-prefix-map={context.cache}=."
    environ = compiler.environ | {"CFLAGS": flags, "CXXFLAGS": flags}
    environ["PATH"] = library.build_path(context)
    options = [*recipe.cmake_args.split(" "), *places]
    source = library.sources(context) / "vendor" / "llama.cpp"

    def show(line: str) -> None:
        if step := re.search(r"\[(\d+)/(\d+)\]", line):
            context.progress.count(int(step.group(1)), int(step.group(2)))

    build.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    title = f"building the {kind.name} backend"
    try:
        with context.progress.step(title, expected_s=kind.core_s / jobs):
            context.run(
                ["cmake", "-S", source, "-B", build, "-G", "Ninja", *options],
                what=f"configuring the {kind.name} backend",
                log=f"backend-{kind.name}-configure",
                extra_environ=environ,
            )
            context.run(
                ["cmake", "--build", build, "--parallel", str(jobs), "--target", kind.target],
                what=title,
                log=f"backend-{kind.name}-build",
                extra_environ=environ,
                on_line=show,
            )
    finally:
        spent = _spent(build) + time.monotonic() - started
        write_whole(build / "spent_s", f"{spent:.1f}")


def _spent(build: Path) -> float:
    """Seconds that earlier attempts and this one have worked on the build."""
    try:
        return float((build / "spent_s").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return 0.0


def _first_line(command: Sequence[str]) -> str:
    return _output(command).split("\n")[0]


def _output(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    return done.stdout.strip()


def _say_waiting(context: Context, name: str) -> None:
    context.progress.say(f"Another set-up is building the {name} backend; this one waits for it.")
