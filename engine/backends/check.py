"""Checks a backend in a child process, and puts how that ended into a verdict."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from engine.api.backends import CheckedDevice
from engine.backends.store import Installed, Verdict

# A driver compiles its programs at first: seconds for a card, a minute in software.
TIME_LIMIT_S = 300.0
# Set in the child, so that it opens what it was told and nothing that is installed.
ALONE = "TWOFOLD_NO_BACKENDS"
_NOT_OPENED = 3
_DRIVERS = {"libcuda.so.1": "NVIDIA's driver", "libvulkan.so.1": "the Vulkan loader"}
# What a backend does that meets its loader, but no driver behind it.
_NO_DRIVER = {"vulkan": "a Vulkan driver"}
_REFUSED = "ggml_backend_init returned NULL"
_MISSING = re.compile(r"(lib[\w.+-]+): cannot open shared object")


def checked(
    backend: Installed,
    time_limit_s: float = TIME_LIMIT_S,
    child: str = "engine.backends.check_child",
) -> Verdict:
    """Takes seconds; a minute where a software driver compiles its programs."""
    command = [sys.executable, "-P", "-m", child, backend.name, str(backend.path)]
    environ = {**os.environ, ALONE: "1"}
    fingerprint = backend.fingerprint()
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=time_limit_s,
            check=False,
            env=environ,
        )
    except subprocess.TimeoutExpired as expired:
        said = expired.stderr.decode("utf-8", "replace") if expired.stderr else ""
        return _failed(fingerprint, "timeout", f"{time_limit_s:.0f} s, {_step(said)}")
    if done.returncode == _NOT_OPENED:
        return _not_opened(fingerprint, backend.name, done.stderr)
    if done.returncode != 0:
        how = _signal(done.returncode) or f"exit status {done.returncode}"
        return _failed(fingerprint, "crashed", f"{how}, {_step(done.stderr)}: {_last(done.stderr)}")
    try:
        report = json.loads(done.stdout.splitlines()[-1])
        devices = tuple(CheckedDevice.model_validate(facts) for facts in report["devices"])
        wrong = [str(name) for name in report["wrong"]]
    except (ValueError, IndexError, KeyError, TypeError):
        return _failed(fingerprint, "crashed", f"no answer, {_last(done.stderr)}")
    if wrong:
        return _failed(fingerprint, "wrong_values", ", ".join(wrong[:3])).model_copy(
            update={"devices": devices}
        )
    if not devices:
        return _failed(fingerprint, "no_device", "")
    return Verdict(fingerprint=fingerprint, devices=devices)


def _not_opened(fingerprint: str, backend: str, said: str) -> Verdict:
    missing = _MISSING.search(said)
    if missing is None and _REFUSED in said and backend in _NO_DRIVER:
        return _failed(fingerprint, "no_driver", _NO_DRIVER[backend])
    if missing is None:
        return _failed(fingerprint, "not_loaded", _last(said))
    name = missing[1]
    reason = "no_driver" if name in _DRIVERS else "not_loaded"
    return _failed(fingerprint, reason, f"{_DRIVERS.get(name, 'a library')}, {name}")


def _failed(fingerprint: str, reason: str, detail: str) -> Verdict:
    return Verdict(fingerprint=fingerprint, reason=reason, detail=detail)


def _signal(status: int) -> str | None:
    try:
        return signal.Signals(-status).name
    except ValueError:
        return None


def _step(said: str) -> str:
    """What the child said last that it was at."""
    steps = [
        line for line in said.splitlines() if line.startswith(("opening: ", "kernel: ", "graph: "))
    ]
    return steps[-1].replace(str(Path.home()), "~") if steps else "at its start"


def _last(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"fail|error|abort|GGML_", line, re.IGNORECASE)]
    return (telling or lines or ["it said nothing"])[-1][:200].replace(str(Path.home()), "~")
