"""Imports the plotting library in steps, on the window's thread.

It touches every type of Qt's. Qt for Python makes a type when it is first touched, and crashes if
two threads do that at once, so a thread of its own is no place for this import; in one go it
would be a pause of a fifth of a second.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from PySide6 import QtCore, QtGui, QtWidgets

LIBRARY = "pyqtgraph"


def _run(name: str) -> Iterator[None]:
    """Imports a package as `import` does, with a step after each statement of it."""
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.origin is not None
    source = Path(spec.origin).read_bytes()
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    for statement in ast.parse(source).body:
        code = compile(ast.Module([statement], []), spec.origin, "exec")
        exec(code, vars(module))
        yield


def _types(module: ModuleType) -> Iterator[None]:
    for name in dir(module):
        getattr(module, name)
        yield


def _import() -> Iterator[None]:
    for module in (QtCore, QtGui, QtWidgets):
        yield from _types(module)
    if LIBRARY not in sys.modules:
        yield from _run(LIBRARY)


# One for the whole process: a page that is closed on the way leaves the rest to the next one.
_importing = _import()


def importing() -> Iterator[None]:
    """The steps that are left."""
    return _importing
