"""The native extension and the package itself, installed so that edits take effect at once."""

from __future__ import annotations

import json

from setup import library
from setup.compiler import Compiler
from setup.context import Context, digest
from setup.environment import pip


def wanted(context: Context) -> str:
    """A hash of everything the extension is built from."""
    native = context.root / "native"
    files = sorted(path for path in native.rglob("*") if path.is_file())
    parts: list[str | bytes] = [str(context.root), json.dumps(context.done("library"))]
    for path in (context.root / "pyproject.toml", *files):
        parts += [path.relative_to(context.root).as_posix(), path.read_bytes()]
    return digest(*parts)


def ready(context: Context) -> bool:
    return context.done("extension") == wanted(context)


def make(context: Context, compiler: Compiler) -> None:
    pins = context.pins("llama")
    defines = {
        "TWOFOLD_LLAMA_SOURCE": library.sources(context) / "vendor" / "llama.cpp",
        "TWOFOLD_LLAMA_LIB": _library_folder(context),
        "TWOFOLD_LLAMA_VERSION": pins["version"],
        "TWOFOLD_LLAMA_COMMIT": pins["commit"],
    }
    settings = [
        part
        for name, value in defines.items()
        for part in ("--config-settings", f"cmake.define.{name}={value}")
    ]
    source = wanted(context)
    with context.progress.step("building the native engine", expected_s=60):
        context.run(
            [
                *(*pip(context), "install", "--no-deps", "--no-build-isolation"),
                *(*settings, "--editable", context.root),
            ],
            what="building the native engine",
            log="extension",
            extra_environ=compiler.environ
            | {
                "CMAKE_ARGS": "",
                "CMAKE_GENERATOR": "Ninja",
                "CMAKE_BUILD_PARALLEL_LEVEL": str(library.job_count()),
                "PATH": library.build_path(context),
            },
        )
    # Taken before the build: what was edited meanwhile is built by the next command.
    context.record("extension", source)


def _library_folder(context: Context) -> str:
    code = (
        "import importlib.util as u; print(u.find_spec('llama_cpp').submodule_search_locations[0])"
    )
    package = context.run(
        [context.python, "-P", "-c", code], what="finding the model library", log="library-folder"
    )
    return f"{package.strip()}/lib"
