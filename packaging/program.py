"""Makes the program's folder: stages what goes in, runs PyInstaller, and lists what came out.

Same inputs give the same folder: file times come from the last commit, and no path of the machine
that builds gets in. `packaging/compare.py` says whether two folders are equal.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(1, str(ROOT))

from staging import OUT, STAGE, project, source_time, stage  # noqa: E402

from setup import backends, library, portable  # noqa: E402
from setup.bootstrap import Needs, set_up  # noqa: E402
from setup.compiler import Compiler, find_compiler  # noqa: E402
from setup.context import Context, cache_folder, digest, file_sha256, write_whole  # noqa: E402
from setup.words import SetupError  # noqa: E402

ENVIRONMENT, PROGRAM = OUT / "env", OUT / "dist" / "twofold"
LOCK = ROOT / "requirements-package.lock"
CONTENTS = OUT / "contents.json"


def make_environment(context: Context) -> Path:
    """A Python environment with exactly what the package is made of; returns its Python."""
    python = ENVIRONMENT / "bin" / "python"
    note = ENVIRONMENT / "made.txt"
    wanted = digest(LOCK.read_bytes(), sys.version)
    if python.exists() and note.exists() and note.read_text(encoding="utf-8") == wanted:
        return python
    base = Path(sys.base_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}")
    with context.progress.step("installing the package's Python packages", expected_s=60):
        context.run(
            [base, "-m", "venv", "--clear", ENVIRONMENT], what="making it", log="package-venv"
        )
        pip = [python, "-m", "pip", "--quiet", "--no-input", "--disable-pip-version-check"]
        context.run(
            [*pip, "install", "--no-deps", "--require-hashes", "-r", LOCK],
            what="the package's Python packages",
            log="package-packages",
        )
    write_whole(note, wanted)
    return python


def gather(context: Context, compiler: Compiler, python: Path) -> None:
    """Builds the library, its backend for graphics cards and the extension, and stages them with
    everything else."""
    libraries = portable.make(context, compiler)
    vulkan = backends.make(context, compiler, "vulkan")
    extension = _extension(context, compiler, python, libraries)
    code = "import sysconfig as s; print(s.get_path('purelib'), s.get_path('stdlib'))"
    found = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    packages, standard = map(Path, found.stdout.split())
    stage(library.sources(context), libraries, extension, packages, standard, [vulkan])


def _extension(context: Context, compiler: Compiler, python: Path, libraries: Path) -> Path:
    """The native extension, linked against these libraries, for any processor."""
    facts = project()
    build = OUT / "extension"
    source = library.sources(context) / "vendor" / "llama.cpp"
    flags = f"-ffile-prefix-map={ROOT}=twofold -ffile-prefix-map={source}=llama.cpp"
    environ = compiler.environ | {"CXXFLAGS": flags, "PATH": library.build_path(context)}
    nanobind = context.run(
        [context.python, "-m", "nanobind", "--cmake_dir"], what="finding nanobind", log="nanobind"
    )
    with context.progress.step("building the package's native engine", expected_s=60):
        context.run(
            [
                *("cmake", "-S", ROOT / "native", "-B", build, "-G", "Ninja"),
                *("-DCMAKE_BUILD_TYPE=Release", f"-DPython_EXECUTABLE={python}"),
                f"-Dnanobind_DIR={nanobind.strip()}",
                f"-DTWOFOLD_LLAMA_SOURCE={source}",
                f"-DTWOFOLD_LLAMA_LIB={libraries}",
                f"-DTWOFOLD_LLAMA_VERSION={facts.llama_version}",
                f"-DTWOFOLD_LLAMA_COMMIT={facts.llama_commit}",
            ],
            what="configuring the package's native engine",
            log="package-configure",
            extra_environ=environ,
        )
        context.run(
            ["cmake", "--build", build, "--parallel", str(library.job_count())],
            what="building the package's native engine",
            log="package-extension",
            extra_environ=environ,
        )
    (module,) = build.glob("_native*.so")
    return module


def freeze(context: Context, python: Path) -> None:
    """Runs PyInstaller."""
    when = source_time()
    for folder in (PROGRAM.parent, OUT / "work"):
        shutil.rmtree(folder, ignore_errors=True)
    facts = project()
    with context.progress.step("packing the program", expected_s=90):
        context.run(
            [
                *(python, "-m", "PyInstaller", "--noconfirm", "--log-level", "WARN"),
                *("--distpath", PROGRAM.parent, "--workpath", OUT / "work"),
                ROOT / "packaging" / "twofold.spec",
            ],
            what="packing the program",
            log="package",
            extra_environ={
                "PYTHONPATH": str(STAGE),
                "PYTHONHASHSEED": "0",
                "SOURCE_DATE_EPOCH": when,
                "PYINSTALLER_CONFIG_DIR": str(OUT / "pyinstaller"),
                "TWOFOLD_STAGE": str(STAGE),
                "TWOFOLD_VERSION": facts.version,
            },
        )


def settle() -> None:
    """Gives every file the time of what was built, and the same rights everywhere."""
    when = int(source_time())
    for path in sorted(PROGRAM.rglob("*"), reverse=True):
        os.utime(path, (when, when), follow_symlinks=False)
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)


def add_system_licences() -> None:
    """The licences of the libraries that came from packages of this system."""
    if not shutil.which("dpkg-query"):
        return
    held = [path.name for path in (PROGRAM / "_internal").glob("lib*.so*")]
    asked = subprocess.run(
        ["dpkg-query", "--search", *(f"*/{name}" for name in held)],
        capture_output=True,
        text=True,
        check=False,
    )
    packages = {line.split(":", 1)[0] for line in asked.stdout.splitlines()}
    for package in sorted(packages):
        told = Path("/usr/share/doc", package, "copyright")
        if told.exists():
            shutil.copyfile(told, PROGRAM / "_internal" / "licences" / f"system-{package}.txt")


def listing(folder: Path) -> dict[str, str]:
    """Each file's hash, or where a link points, by its place in the folder."""
    return {
        path.relative_to(folder).as_posix(): (
            f"-> {path.readlink()}" if path.is_symlink() else file_sha256(path)
        )
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def main() -> None:
    context = Context(ROOT, cache_folder(os.environ))
    set_up(context, Needs(engine=False))
    compiler = find_compiler()
    python = make_environment(context)
    gather(context, compiler, python)
    freeze(context, python)
    add_system_licences()
    settle()
    found = listing(PROGRAM)
    CONTENTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    size = sum(path.stat().st_size for path in PROGRAM.rglob("*") if not path.is_symlink())
    context.progress.say(
        f"{PROGRAM.relative_to(ROOT)}: {len(found)} files, {size / 1e6:.0f} MB, "
        f"contents {digest(json.dumps(found))}"
    )


if __name__ == "__main__":
    try:
        main()
    except SetupError as error:
        sys.exit(f"{error} [{error.code}]")
