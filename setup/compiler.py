"""Finds the C++ compiler that builds the library and the extension, and tries it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from setup.words import SetupError

PAIRS = (("cc", "c++"), ("gcc", "g++"), ("clang", "clang++"))
OLDEST = {"GCC": 11, "clang": 14}
PROBE = "#include <span>\n#include <thread>\nint main() { std::thread([] {}).join(); }\n"


@dataclass(frozen=True)
class Compiler:
    """A C and a C++ compiler of one kind; `version` is the C++ one's own full version text."""

    c: str
    cxx: str
    kind: str
    version: str

    @property
    def name(self) -> str:
        return f"{self.kind} {self.version}"

    @property
    def environ(self) -> dict[str, str]:
        """What makes CMake take this compiler, and no flags that happen to be set outside."""
        return {"CC": self.c, "CXX": self.cxx, "CFLAGS": "", "CXXFLAGS": "", "LDFLAGS": ""}


def find_compiler() -> Compiler:
    """The compiler that CC and CXX name, else the system's.

    Raises SetupError compiler.missing, compiler.too_old or compiler.broken.
    """
    named = (os.environ.get("CC") or "cc", os.environ.get("CXX") or "c++")
    pairs = (named, *PAIRS) if os.environ.get("CXX") else PAIRS
    for c, cxx in pairs:
        paths = shutil.which(c), shutil.which(cxx)
        if paths[0] and paths[1]:
            return _describe(paths[0], paths[1])
    raise SetupError("compiler.missing")


def _describe(c: str, cxx: str) -> Compiler:
    shown = subprocess.run(
        [cxx, "-dM", "-E", "-x", "c++", "/dev/null"], capture_output=True, text=True, check=False
    )
    macros = dict(re.findall(r'^#define (\w+) "?(.*?)"?$', shown.stdout, re.MULTILINE))
    if "__clang__" in macros:
        kind, major = "clang", int(macros["__clang_major__"])
    elif "__GNUC__" in macros:
        kind, major = "GCC", int(macros["__GNUC__"])
    else:
        raise SetupError("compiler.broken", compiler=cxx, detail=_first_line(shown.stderr))
    compiler = Compiler(c, cxx, kind, macros["__VERSION__"])
    if major < OLDEST[kind]:
        raise SetupError("compiler.too_old", compiler=compiler.name)
    with tempfile.TemporaryDirectory() as folder:
        built = subprocess.run(
            [cxx, "-std=c++20", "-pthread", "-x", "c++", "-", "-o", str(Path(folder, "probe"))],
            input=PROBE,
            capture_output=True,
            text=True,
            check=False,
        )
    if built.returncode != 0:
        raise SetupError("compiler.broken", compiler=cxx, detail=_first_line(built.stderr))
    return compiler


def _first_line(text: str) -> str:
    return next(iter(text.strip().splitlines()), "no message")
