"""How soon the packaged program's window is on the screen: `python -m tests.bench.package_start`.

Each run is cold: before it the program's files are taken out of the page cache, or with --all every
file of the machine is (as root; it slows down whatever else runs). A display of its own is made
with Xvfb; xdotool says when the window is visible.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support.display import display

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "build" / "package" / "dist" / "twofold" / "twofold"
LIMIT_S = 60.0


def forget(folder: Path) -> None:
    """Takes the files below `folder` out of the page cache."""
    os.sync()
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def forget_all() -> None:
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3", encoding="ascii")


def start(program: Path, home: Path, screen: str) -> float:
    """Seconds from the start of the process to its window."""
    environ = dict(os.environ) | {"DISPLAY": screen, "TWOFOLD_HOME": str(home)}
    began = time.monotonic()
    process = subprocess.Popen([program], env=environ, start_new_session=True)
    try:
        while time.monotonic() - began < LIMIT_S:
            looked = subprocess.run(
                ["xdotool", "search", "--onlyvisible", "--name", "Twofold"],
                env=environ, capture_output=True, text=True,
            )  # fmt: skip
            if looked.stdout.strip():
                return time.monotonic() - began
            if process.poll() is not None:
                sys.exit(f"{program} ended with {process.returncode} and showed no window.")
            time.sleep(0.01)
        sys.exit(f"{program} showed no window within {LIMIT_S:.0f} s.")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", type=Path, default=PROGRAM)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--all", action="store_true", help="Drop every file's cache, as root.")
    wanted = parser.parse_args()
    cold: list[float] = []
    warm: list[float] = []
    with display() as screen, tempfile.TemporaryDirectory() as home:
        for _ in range(wanted.runs):
            if wanted.all:
                forget_all()
            else:
                forget(wanted.program.parent)
            cold.append(start(wanted.program, Path(home), screen))
            warm.append(start(wanted.program, Path(home), screen))
    for name, values in (("cold", cold), ("warm", warm)):
        print(
            f"{name:<6}{min(values):8.2f} {statistics.median(values):8.2f} {max(values):8.2f} s"
            f"  (least, median, most of {wanted.runs})"
        )


if __name__ == "__main__":
    main()
