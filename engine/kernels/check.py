"""Makes sure that the kernel in use computes what it should, before it computes anything else.

A kernel that the processor only pretends to have may end the process, so each one runs first in a
child: this file, as a module. What came out is kept for this processor, library and extension.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from pydantic import BaseModel, TypeAdapter, ValidationError

from engine import paths
from engine.errors import TwofoldError
from engine.native import native

FILE_NAME = "kernels.json"
_TIME_LIMIT_S = 120  # it takes well below a second on an idle machine


class KernelUnfit(TwofoldError):
    """The kernel that TWOFOLD_KERNEL names failed its check. Data: `kernel`, `reason`."""

    code = "kernel.unfit"


class Verdict(BaseModel):
    """`reason` why a kernel must not run; None when it computes what scalar does."""

    kernel: str
    reason: str | None


_Verdicts = TypeAdapter(dict[str, dict[str, Verdict]])


def checked_kernels() -> list[Verdict]:
    """A verdict on each kernel that this processor claims to run; checks what is not yet known."""
    return [_verdict(name) for name in native().usable_kernels()]


def use_checked_kernel() -> None:
    """Disables the fastest kernels that fail, up to the first that is fit.

    Raises KernelUnfit if the environment forces one that is not, and NativeError `kernel.unknown`.
    """
    forced = os.environ.get("TWOFOLD_KERNEL")
    while True:
        name: str = native().chosen_kernel()
        if name in ("library", "scalar"):
            return
        reason = _verdict(name).reason
        if reason is None:
            return
        if forced:
            raise KernelUnfit(kernel=name, reason=reason)
        native().disable_kernel(name)


def run_check(name: str) -> Verdict:
    """Runs the kernel in a child process and says how that went."""
    command = [sys.executable, "-P", "-m", "engine.kernels.check", name]
    environment = os.environ | {"TWOFOLD_KERNEL": ""}
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_TIME_LIMIT_S,
            check=False,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        return Verdict(kernel=name, reason=f"it did not end within {_TIME_LIMIT_S} seconds")
    if done.returncode < 0:
        return Verdict(kernel=name, reason=f"it ended with {signal.Signals(-done.returncode).name}")
    if done.returncode > 0:
        lines = done.stderr.strip().splitlines() or ["no message"]
        return Verdict(kernel=name, reason=f"its check failed: {lines[-1]}")
    error = float(done.stdout)
    if not error <= native().kernel_tolerance:
        return Verdict(kernel=name, reason=f"its results are wrong by {error:.1e}")
    return Verdict(kernel=name, reason=None)


def _verdict(name: str) -> Verdict:
    if name == "scalar":  # what the others are compared with
        return Verdict(kernel=name, reason=None)
    file, key = paths.cache_folder() / FILE_NAME, machine_key()
    known = _read(file).get(key, {})
    if name not in known:
        known[name] = run_check(name)
        _write(file, {key: known})  # of another machine or build nothing is needed any more
    return known[name]


def machine_key() -> str:
    """Names processor, its features, library and extension: what a verdict holds for."""
    parts = [platform.machine(), _cpu(), native().library_commit()]
    parts.append(hashlib.sha256(Path(str(native().__file__)).read_bytes()).hexdigest())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def multiplier() -> str:
    """Names what multiplies on the CPU: the library's variant, and the kernel of ours. Speeds that
    were measured with one say nothing of another."""
    return f"{native().cpu_variant() or 'own'}/{native().chosen_kernel()}"


def _cpu() -> str:
    try:
        info = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    telling = ("model name", "stepping", "microcode", "flags", "CPU part", "Features")
    first, _, _ = info.partition("\n\n")
    return "\n".join(line for line in first.splitlines() if line.startswith(telling))


def _read(file: Path) -> dict[str, dict[str, Verdict]]:
    try:
        return _Verdicts.validate_json(file.read_bytes())
    except (OSError, ValidationError):
        return {}


def _write(file: Path, verdicts: dict[str, dict[str, Verdict]]) -> None:
    """Whole or not at all; a folder that cannot be written costs a check at each start."""
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
        with os.fdopen(handle, "wb") as out:
            out.write(_Verdicts.dump_json(verdicts))
        Path(name).replace(file)


if __name__ == "__main__":
    print(json.dumps(native().kernel_error(sys.argv[1])))
