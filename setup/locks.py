"""Keeps two set-ups from working on the same folder at once."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path, on_wait: Callable[[], None]) -> Generator[int]:
    """Holds the lock file `path`, and yields its descriptor; calls `on_wait` once if it is taken.

    A child that inherits the descriptor holds the lock too: even if this process is killed, the
    next set-up waits until the last of its compilers has gone.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        waiting = False
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not waiting:
                    on_wait()
                waiting = True
                time.sleep(0.2)
        yield descriptor
    finally:
        os.close(descriptor)
