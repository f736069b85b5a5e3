"""The packaging scripts as modules: their folder is no package."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[3]
PACKAGING = ROOT / "packaging"


def script(name: str) -> ModuleType:
    """`packaging/NAME.py`, whose siblings it imports by their names alone."""
    file = PACKAGING / f"{name}.py"
    for folder in (str(PACKAGING), str(file.parent)):
        if folder not in sys.path:
            sys.path.append(folder)
    return importlib.import_module(file.stem)
