"""Two set-ups take turns, even when one of them is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from setup.locks import locked
from tests.unit.setup.conftest import ROOT


def holder(lock: Path, ready: Path, inside: str) -> subprocess.Popen[bytes]:
    """A process that takes the lock, says so in the file `ready`, and runs `inside`."""
    code = (
        "import subprocess, sys, time\n"
        "from pathlib import Path\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from setup.locks import locked\n"
        f"with locked(Path({str(lock)!r}), lambda: None) as held:\n"
        f"    {inside}\n"
        f"    Path({str(ready)!r}).touch()\n"
        "    time.sleep(1.0)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    deadline = time.monotonic() + 30
    while not ready.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return process


def test_the_second_waits_for_the_first_and_says_so_once(tmp_path: Path) -> None:
    waits: list[str] = []
    with (
        holder(tmp_path / "lock", tmp_path / "ready", "pass") as first,
        locked(tmp_path / "lock", lambda: waits.append("waiting")),
    ):
        assert first.wait(timeout=5) == 0
    assert waits == ["waiting"]


def test_a_killed_set_up_keeps_the_lock_until_its_children_are_gone(tmp_path: Path) -> None:
    inside = "subprocess.Popen(['sleep', '1.5'], pass_fds=[held])"
    with holder(tmp_path / "lock", tmp_path / "ready", inside) as first:
        started = time.monotonic()
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        with locked(tmp_path / "lock", lambda: None):
            assert time.monotonic() - started > 1.0


def test_a_free_lock_is_taken_at_once(tmp_path: Path) -> None:
    waits: list[str] = []
    for _ in range(2):
        with locked(tmp_path / "folder" / "lock", lambda: waits.append("waiting")):
            pass
    assert waits == []
