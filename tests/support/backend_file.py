"""Backends' files that are real libraries, made of a few lines of C."""

from __future__ import annotations

import subprocess
from pathlib import Path

from engine.native import pinned_version
from setup import backends
from setup.compiler import find_compiler

CRASHES = "#include <stdlib.h>\nvoid *ggml_backend_init(void) { abort(); }\n"


def make_backend_file(
    folder: Path, code: str, *flags: str, name: str = "odd", version: str | None = None
) -> Path:
    """Compiles the code with `flags`, and stamps it for the library in use or for `version`."""
    source, bare = folder / f"{name}.c", folder / f"bare-{name}.so"
    source.write_text(code, encoding="utf-8")
    command = [find_compiler().c, "-shared", "-fPIC", "-o", bare, source, *flags]
    subprocess.run(command, check=True)
    target = folder / f"libggml-{name}.so"
    facts = {"backend": name, "version": version or pinned_version(), "commit": "test"}
    backends.stamp(bare, target, facts)
    return target
