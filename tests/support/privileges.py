"""Runs a piece of a test as somebody who may read and write only what the permissions allow."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# linux/capability.h: what lets root pass over permissions.
_DAC_OVERRIDE, _DAC_READ_SEARCH = 1, 2
_VERSION_3 = 0x20080522


def as_anybody(work: Callable[[], T]) -> T:
    """What `work` gives. For root it runs in a thread that has put its rights away: they are each
    thread's own, and threads that it starts have no more."""
    if os.name == "nt" or os.geteuid() != 0:
        return work()
    given: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            _put_away()
            given.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return given[0]


def _put_away() -> None:
    if sys.platform != "linux":
        raise OSError("rights of single threads are known on Linux alone")
    libc = ctypes.CDLL(None, use_errno=True)
    header = ctypes.create_string_buffer(struct.pack("<Ii", _VERSION_3, 0))
    sets = ctypes.create_string_buffer(24)  # effective, permitted, inheritable; twice 32 bits
    if libc.capget(header, sets):
        raise OSError(ctypes.get_errno(), "capget")
    words = list(struct.unpack("<6I", sets.raw))
    for place in range(3):
        words[place] &= ~(1 << _DAC_OVERRIDE | 1 << _DAC_READ_SEARCH)
    if libc.capset(header, ctypes.create_string_buffer(struct.pack("<6I", *words))):
        raise OSError(ctypes.get_errno(), "capset")
