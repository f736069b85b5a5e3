"""The most memory that this process held during one run, not since it started."""

from __future__ import annotations

from pathlib import Path

_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")


class PeakMemory:
    """Starts the kernel's high-water mark anew when made.

    A process' peak never falls by itself, so that one model measured on several paths would show
    the largest for all. Linux can set it back to what is resident now (proc(5), clear_refs: 5).
    """

    def __init__(self) -> None:
        try:
            _RESET.write_text("5")
            self._known = True
        except OSError:  # no such file, or not allowed
            self._known = False

    @property
    def nbytes(self) -> int | None:
        """Bytes, everything in the process included; None where the system does not tell."""
        if not self._known:
            return None
        for line in _STATUS.read_text().splitlines():
            name, _, value = line.partition(":")
            if name == "VmHWM":
                return int(value.split()[0]) * 1024
        return None
