"""Gathers what goes into the program, before PyInstaller: the same on each system.

`python packaging/staging.py --sources LLAMA_CPP_PYTHON --libraries FOLDER --extension FILE`, with
the Python that the program is to hold. Needs nothing but Python and git.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sysconfig
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "build" / "package"
STAGE = OUT / "stage"
# What Qt's wheels name as their licence, and what is shown where no wheel brings a text.
COMMON_LICENCES = ("LGPL-3", "GPL-3")


@dataclass(frozen=True)
class Project:
    """What pyproject.toml says; the version stands nowhere else."""

    name: str
    version: str
    dependencies: list[str]
    llama_version: str
    llama_commit: str


def project() -> Project:
    facts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    llama = facts["tool"]["twofold"]["llama"]
    return Project(
        name=facts["project"]["name"],
        version=facts["project"]["version"],
        dependencies=facts["project"]["dependencies"],
        llama_version=llama["version"],
        llama_commit=llama["commit"],
    )


def source_time() -> str:
    """Seconds since 1970 of what is built: SOURCE_DATE_EPOCH, or the last commit's."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return given
    return _git("log", "-1", "--format=%ct").strip()


def tracked(*folders: str) -> list[Path]:
    """The project's own files below these folders."""
    return [
        ROOT / name for name in sorted(_git("ls-files", "-z", "--", *folders).split("\0")) if name
    ]


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def stage(
    sources: Path,
    libraries: Path,
    extension: Path,
    packages: Path,
    standard: Path,
    backends: Sequence[Path] = (),
) -> None:
    """Fills STAGE. `packages` and `standard` are the folders of Python's installed packages and
    of its standard library, whose licence texts are taken; `backends` are files for graphics
    cards."""
    facts = project()
    shutil.rmtree(STAGE, ignore_errors=True)
    for file in tracked("app", "engine", "assets"):
        target = STAGE / file.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    shutil.copytree(
        sources / "llama_cpp",
        STAGE / "llama_cpp",
        ignore=shutil.ignore_patterns("lib", "server", "__pycache__", "py.typed"),
    )
    shutil.copytree(libraries, STAGE / "llama_cpp" / "lib", symlinks=True)
    shutil.copy(extension, STAGE / "engine" / extension.name)
    _describe(facts.name, facts.version, facts.dependencies)
    _describe("llama-cpp-python", facts.llama_version, [])
    (STAGE / "backends").mkdir()
    for file in backends:
        shutil.copy(file, STAGE / "backends" / file.name)
    _licences(sources, packages, standard)


def _describe(name: str, version: str, requires: list[str]) -> None:
    """What the program asks of an installed package's metadata."""
    folder = STAGE / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir()
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {one}" for one in requires]
    (folder / "METADATA").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _licences(sources: Path, packages: Path, standard: Path) -> None:
    """Our own, the list, and the licence texts that the parts bring along."""
    target = STAGE / "licences"
    target.mkdir()
    shutil.copyfile(ROOT / "LICENSE", target / "twofold.txt")
    shutil.copyfile(ROOT / "LICENSES.md", target / "LICENSES.md")
    shutil.copyfile(ROOT / "app" / "theme" / "icons" / "LICENSE", target / "icons.txt")
    shutil.copyfile(sources / "LICENSE.md", target / "llama-cpp-python.txt")
    shutil.copyfile(sources / "vendor" / "llama.cpp" / "LICENSE", target / "llama.cpp.txt")
    for name in ("LICENSE.txt", "LICENSE"):
        if (standard / name).exists():
            shutil.copyfile(standard / name, target / "python.txt")
    for one in metadata.distributions(path=[str(packages)]):
        texts = sorted((file for file in one.files or [] if _is_licence(str(file))), key=str)
        for number, file in enumerate(texts):
            suffix = "" if number == 0 else f"-{number + 1}"
            name = f"{one.metadata['Name'].lower()}{suffix}.txt"
            shutil.copyfile(str(file.locate()), target / name)
    for name in COMMON_LICENCES:
        common = Path("/usr/share/common-licenses", name)
        if common.exists():
            shutil.copyfile(common, target / f"{name}.txt")


def _is_licence(path: str) -> bool:
    name = path.rsplit("/", 1)[-1].lower()
    return ".dist-info/" in path and name.startswith(("license", "licence", "copying", "notice"))


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("sources", "libraries", "extension"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    wanted = parser.parse_args()
    packages, standard = (Path(sysconfig.get_path(name)) for name in ("purelib", "stdlib"))
    stage(wanted.sources, wanted.libraries, wanted.extension, packages, standard)


if __name__ == "__main__":
    main()
