"""Loads GGUF files in the library, each in its own child process, and says how that went.

    python -m tests.support.library_load FILE...      one JSON line a file

`outcome` is "ran" (loaded, tokenised, decoded), "refused" (the library said no), "crashed"
(killed by a signal) or "hung"; `words` are the library's last ones. The children are forked
from a process that has opened the library but not used it, so a file costs milliseconds.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.gguf.rehearsal import last_words, use_once

SECONDS = 20.0
MEMORY_BYTES = 6 << 30


@dataclass(frozen=True)
class Outcome:
    path: Path
    outcome: str
    words: str


def load_all(paths: Iterable[Path]) -> list[Outcome]:
    """Run this module on `paths` in a process of its own."""
    command = [sys.executable, "-m", "tests.support.library_load", *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return [Outcome(Path(row["path"]), row["outcome"], row["words"]) for row in rows]


def _each(paths: Iterable[str]) -> Iterator[dict[str, str]]:
    for path in paths:
        with tempfile.TemporaryFile() as log:
            pid = os.fork()
            if pid == 0:
                _child(path, log.fileno())
            status = _wait(pid)
            log.seek(0)
            words = last_words(log.read())
        if status is None:
            outcome = "hung"
        elif os.WIFSIGNALED(status):
            outcome = "crashed"
        else:
            outcome = {0: "ran", 1: "refused"}.get(os.WEXITSTATUS(status), "crashed")
        yield {"path": path, "outcome": outcome, "words": words}


def _wait(pid: int) -> int | None:
    handle = os.pidfd_open(pid)
    try:
        ready, _, _ = select.select([handle], [], [], SECONDS)
        if not ready:
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        return status if ready else None
    finally:
        os.close(handle)


def _child(path: str, log: int) -> None:
    os.dup2(log, 1)
    os.dup2(log, 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    os.environ["GGML_NO_BACKTRACE"] = "1"  # no debugger on our own children
    code = 3
    try:
        code = 0 if use_once(Path(path)) else 1
    finally:
        os._exit(code)


if __name__ == "__main__":
    import llama_cpp  # opened once, for all children

    del llama_cpp
    for row in _each(sys.argv[1:]):
        print(json.dumps(row), flush=True)
