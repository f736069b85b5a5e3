"""The self-check's child with a backend that computes wrongly: every product is off by a tenth."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

from engine.backends import check_child
from engine.doctor import kernels
from engine.doctor.kernels import Floats, Library

_right = kernels.multiply


def _wrong(
    library: Library, number: int, encoded: bytes, tokens: Floats, buffer_type: ctypes.c_void_p
) -> Floats | None:
    found = _right(library, number, encoded, tokens, buffer_type)
    return None if found is None else found * 1.1


if __name__ == "__main__":
    kernels.multiply = _wrong
    check_child.main(sys.argv[1], Path(sys.argv[2]))
