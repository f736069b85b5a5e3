"""One quiet line on the terminal while a step runs; a line a step where there is no terminal."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TextIO

# Without a terminal (logs, CI), a running step repeats itself this seldom.
REPEAT_S = 60.0


class Progress:
    """Shows the running step with its count, elapsed time and estimate, on standard error."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._title = ""
        self._started = 0.0
        self._shown = 0.0
        self._last_line = ""
        self._counts: tuple[int, int] | None = None
        self._expected_s: float | None = None

    @contextmanager
    def step(self, title: str, expected_s: float | None = None) -> Generator[None]:
        """Shows `title` while the block runs; `expected_s` is the first estimate, in seconds."""
        self._title, self._counts, self._expected_s = title, None, expected_s
        self._started = time.monotonic()
        self._last_line = ""
        self._show()
        try:
            yield
        finally:
            if self._live:
                self._stream.write("\r\x1b[K")
                self._stream.flush()
            self._title = ""

    def say(self, text: str) -> None:
        """A lasting line."""
        self._stream.write(f"\r\x1b[K{text}\n" if self._live else f"{text}\n")
        self._stream.flush()

    def count(self, done: int, total: int) -> None:
        """The running step has done `done` of `total` parts."""
        self._counts = (done, total)
        self.tick()

    def tick(self) -> None:
        """Called now and then while a program runs."""
        if self._title and time.monotonic() - self._shown >= (0.2 if self._live else REPEAT_S):
            self._show()

    def line(self) -> str:
        """The running step as one line."""
        elapsed = time.monotonic() - self._started
        parts = [f"Set-up: {self._title}"]
        left = None if self._expected_s is None else self._expected_s - elapsed
        if self._counts and self._counts[0]:
            done, total = self._counts
            parts.append(f"[{done}/{total}]")
            # The first few parts say little about the rest.
            if left is None or done >= total / 10:
                left = elapsed / done * (total - done)
        if elapsed >= 2:
            parts.append(_duration(elapsed))
        if left is not None and left > 0:
            parts.append(f"about {_duration(left)} left")
        return ", ".join(parts)

    def _show(self) -> None:
        self._shown = time.monotonic()
        if self._live:
            # A line that wraps could not be taken back.
            width = shutil.get_terminal_size().columns - 1
            line = self.line()[:width]
            if line != self._last_line:
                self._stream.write(f"\r\x1b[K{line}")
            self._last_line = line
        else:
            self._stream.write(f"{self.line()}\n")
        self._stream.flush()


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
