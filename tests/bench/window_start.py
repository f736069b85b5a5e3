"""How soon the window is on the screen, and what it takes: `python -m tests.bench.window_start`.

Each run is a fresh process as `python -m app` starts it, from its first moment to the window's
first frame on the display (without one: in the screenless platform). The engine starts behind it.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = 7

WINDOW = """
import json, os, time
import psutil
from PySide6.QtCore import QTimer
from app.main import Application, main
start = Application.start

def started(self):
    start(self)

    def look():
        if not self.window.windowHandle().isExposed():
            QTimer.singleShot(1, look)
            return
        born = float(os.environ["BORN"])
        memory = psutil.Process().memory_full_info()
        print(json.dumps([time.time() - born, memory.rss, memory.uss]), flush=True)
        self.window.close()

    QTimer.singleShot(0, look)

Application.start = started
main([])
"""


def run(home: Path) -> tuple[float, int, int]:
    environment = dict(os.environ) | {"TWOFOLD_HOME": str(home), "BORN": str(time.time())}
    done = subprocess.run(
        [sys.executable, "-c", WINDOW], env=environment, capture_output=True, text=True, check=True
    )
    seconds, resident, own = json.loads(done.stdout)
    return seconds, resident, own


def main() -> None:
    if "DISPLAY" not in os.environ and sys.platform == "linux":
        os.environ["QT_QPA_PLATFORM"] = "offscreen"
    with tempfile.TemporaryDirectory() as home:
        run(Path(home))  # the first one warms the caches
        runs = [run(Path(home)) for _ in range(RUNS)]
    for name, column, scale, unit in (
        ("on the screen", 0, 1.0, "s"), ("resident", 1, 1e6, "MB"), ("its own", 2, 1e6, "MB"),
    ):  # fmt: skip
        values = [figures[column] / scale for figures in runs]
        print(
            f"{name:<14}{min(values):8.2f} {statistics.median(values):8.2f} {max(values):8.2f} "
            f"{unit}  (least, median, most of {RUNS})"
        )


if __name__ == "__main__":
    main()
