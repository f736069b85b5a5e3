"""Runs `kernels` in a child process and says whether the installed library is fit to use.

Standard library only, and nothing of the package's: the set-up runs this file as a script, and
reads one JSON object, right after it has installed the library.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

KERNELS = Path(__file__).with_name("kernels.py")
# The check takes about 4 seconds; a machine that is busy building may need many times that.
TIME_LIMIT_S = 300
STARTED = "kernel: "


def self_check(kernels: Path = KERNELS, time_limit_s: float = TIME_LIMIT_S) -> dict[str, Any]:
    """The check's outcome: `healthy`, and either what `kernels` reports or how it ended.

    A failure has `reason` (a signal's name, `timeout`, `exit`, `wrong_values`), `kernel` (the
    last one that was started, or None) and `detail`.
    """
    command = [sys.executable, "-P", str(kernels)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=time_limit_s, check=False
        )
    except subprocess.TimeoutExpired as expired:
        progress = expired.stderr.decode() if isinstance(expired.stderr, bytes) else ""
        return _failure("timeout", progress)
    if done.returncode < 0:
        return _failure(signal.Signals(-done.returncode).name, done.stderr)
    if done.returncode > 0:
        return _failure("exit", done.stderr)
    report: dict[str, Any] = json.loads(done.stdout)
    if report["wrong"]:
        wrong = ", ".join(f"{kernel['type']} {kernel['buffer']}" for kernel in report["wrong"])
        return {"healthy": False, "reason": "wrong_values", "kernel": wrong, "detail": ""} | report
    return {"healthy": True} | report


def _failure(reason: str, said: str) -> dict[str, Any]:
    lines = said.strip().splitlines()
    started = [line for line in lines if line.startswith(STARTED)]
    kernel = started[-1].removeprefix(STARTED) if started else None
    return {"healthy": False, "reason": reason, "kernel": kernel, "detail": (lines or [""])[-1]}


if __name__ == "__main__":
    print(json.dumps(self_check()))
