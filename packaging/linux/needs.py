"""Finds the packages that the program needs of its system, from what its files link to."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

# The GCC release that brought each of the C++ library's symbol versions GLIBCXX_3.4.N.
_GCC_OF = {28: "9", 29: "11", 30: "12", 31: "13", 32: "13.2", 33: "14", 34: "15"}
# Vulkan's loader comes with graphics drivers. Without it models run on the CPU, and the program
# says why, so it is recommended and no machine has to have it.
DOES_WITHOUT = frozenset({"libvulkan.so.1"})


@dataclass(frozen=True)
class Links:
    """One file's: libraries by name, and the versions of symbols as (library's, major, minor)."""

    needed: frozenset[str]
    versions: frozenset[tuple[str, int, int]]


def is_program_file(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def read_links(text: str) -> Links:
    """From what `objdump -p` prints."""
    versions = re.findall(r"\b(GLIBC|GLIBCXX)_(\d+)\.(\d+(?:\.\d+)?)", text)
    return Links(
        frozenset(re.findall(r"^\s*NEEDED\s+(\S+)", text, re.MULTILINE)),
        frozenset((name, int(major), int(rest.split(".")[-1])) for name, major, rest in versions),
    )


def packages(links: Iterable[Links], held: set[str], owners: dict[str, str]) -> list[str]:
    """Debian's dependencies. `held`: the program's own files by name; `owners`: whose package each
    library is. Raises KeyError with the name of one that no package owns."""
    every = [*links]
    outside = {name for one in every for name in one.needed} - held - DOES_WITHOUT
    named = {owners[name] for name in outside if not name.startswith("ld-linux")}
    least = {"GLIBC": (0, 0), "GLIBCXX": (0, 0)}
    for name, major, minor in (version for one in every for version in one.versions):
        # 2.2.5 and its like are older than any system; only two numbers count.
        least[name] = max(least[name], (major, minor))
    found: list[str] = []
    for package in sorted(named):
        if package == "libc6":
            package += f" (>= {least['GLIBC'][0]}.{least['GLIBC'][1]})"
        elif package == "libstdc++6" and least["GLIBCXX"][1] in _GCC_OF:
            package += f" (>= {_GCC_OF[least['GLIBCXX'][1]]})"
        found.append(package)
    return found


def needs_of(program: Path) -> list[str]:
    """Of the files below `program`; ends the script if a library has no package here."""
    files = [path for path in program.rglob("*") if path.is_file() and not path.is_symlink()]
    links = [read_links(_said("objdump", "-p", path)) for path in files if is_program_file(path)]
    held = {path.name for path in program.rglob("*")}
    outside = {name for one in links for name in one.needed} - held - DOES_WITHOUT
    owners: dict[str, str] = {}
    known = _said("ldconfig", "-p")
    for name in outside:
        place = re.search(rf"^\s*{re.escape(name)} \(.*x86-64.*\) => (\S+)$", known, re.MULTILINE)
        place = place or re.search(rf"^\s*{re.escape(name)} .* => (\S+)$", known, re.MULTILINE)
        if place:
            real = Path(place.group(1))
            owner = _owner(real) or _owner(Path("/lib", *real.parts[-2:]))
            if owner:
                owners[name] = owner
    try:
        return packages(links, held, owners)
    except KeyError as missing:
        sys.exit(f"The program links to {missing}, which no installed package has: install it.")


def _owner(path: Path) -> str | None:
    for one in (path, path.resolve(), Path("/usr") / path.relative_to("/")):
        done = subprocess.run(
            ["dpkg-query", "--search", one], capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            return done.stdout.split(":", 1)[0]
    return None


def _said(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
