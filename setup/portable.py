"""The model library for the package: it runs on any machine, its CPU part comes in variants.

The library opens the variant that fits the processor best when it starts.
"""

from __future__ import annotations

import json
import platform
import re
import shutil
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from setup import library
from setup.compiler import Compiler
from setup.context import GIB, Context, digest, write_whole
from setup.variants import arguments, variants

BUILD_CORE_S = 900


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what the build is; equal recipes share one."""

    version: str
    sdist_sha256: str
    arguments: tuple[str, ...]
    variants: tuple[str, ...]
    flags: str
    compiler: str
    machine: str

    @property
    def key(self) -> str:
        return digest(json.dumps(asdict(self), sort_keys=True))


def recipe(pins: dict[str, str], compiler: Compiler) -> Recipe:
    return Recipe(
        version=pins["version"],
        sdist_sha256=pins["sdist_sha256"],
        arguments=tuple(arguments(sys.platform, pins["commit"])),
        variants=variants(sys.platform),
        flags=library.GCC_FLAGS if compiler.kind == "GCC" else "",
        compiler=compiler.name,
        machine=platform.machine(),
    )


def make(context: Context, compiler: Compiler) -> Path:
    """The folder of the built libraries, made if the cache lacks it. Raises SetupError."""
    library.fetch_sources(context)
    wanted = recipe(context.pins("llama"), compiler)
    folder = context.cache / "portable" / wanted.key
    if (folder / "recipe.json").exists():
        return folder / "lib"
    context.need_space(context.cache, GIB)
    folder.mkdir(parents=True, exist_ok=True)
    build, jobs = folder / "build", str(library.job_count())
    started = time.monotonic()
    environ = compiler.environ | build_environ(context, wanted)

    def show(line: str) -> None:
        if step := re.search(r"\[(\d+)/(\d+)\]", line):
            context.progress.count(int(step.group(1)), int(step.group(2)))

    with context.progress.step(
        "building the package's model library", expected_s=BUILD_CORE_S / int(jobs)
    ):
        context.run(
            [
                *("cmake", "-S", library.sources(context) / "vendor" / "llama.cpp", "-B", build),
                *("-G", "Ninja", *wanted.arguments),
                f"-DCMAKE_PROJECT_ggml_INCLUDE={context.root / 'setup' / 'portable.cmake'}",
            ],
            what="configuring the package's model library",
            log="portable-configure",
            extra_environ=environ,
        )
        targets = [f"ggml-cpu-{variant}" for variant in wanted.variants] or ["all"]
        context.run(
            ["cmake", "--build", build, "--parallel", jobs, "--target", "llama", *targets],
            what="building the package's model library",
            log="portable-build",
            extra_environ=environ,
            on_line=show,
        )
    _keep(build / "bin", folder / "lib")
    shutil.rmtree(build)
    facts = asdict(wanted) | {"build_s": round(time.monotonic() - started)}
    write_whole(folder / "recipe.json", json.dumps(facts, indent=1))
    return folder / "lib"


def build_environ(context: Context, wanted: Recipe) -> dict[str, str]:
    """The compiler's flags; no path of this machine gets into what is built."""
    source = library.sources(context) / "vendor" / "llama.cpp"
    flags = f"{wanted.flags} -ffile-prefix-map={source}=llama.cpp".strip()
    return {"CFLAGS": flags, "CXXFLAGS": flags, "PATH": library.build_path(context)}


def _keep(built: Path, target: Path) -> None:
    """Copies each library once, under the name that others load it by."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for name in ("libllama.so", "libggml.so", "libggml-base.so"):
        file = built / name
        shutil.copy(file.resolve(), target / f"{name}.0")
        # llama_cpp and the linker open it by the short name; a link is the same file.
        (target / name).symlink_to(f"{name}.0")
    for file in sorted(built.glob("libggml-cpu-*.so")):
        shutil.copy(file, target / file.name)
