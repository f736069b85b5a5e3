"""Drives the real command line as a person does: types, reads both streams, presses Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import IO, Self


class Terminal:
    """One running `twofold` command. `out` and `err` grow as it writes."""

    def __init__(self, *arguments: str, environment: dict[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "engine.cli", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | (environment or {}),
            start_new_session=True,
        )
        self._streams: dict[str, bytearray] = {"out": bytearray(), "err": bytearray()}
        self._readers = [
            threading.Thread(target=self._read, args=(name, stream), daemon=True)
            for name, stream in (("out", self._process.stdout), ("err", self._process.stderr))
            if stream is not None
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, name: str, stream: IO[bytes]) -> None:
        while chunk := os.read(stream.fileno(), 4096):
            self._streams[name] += chunk

    @property
    def out(self) -> str:
        return self._streams["out"].decode(errors="replace")

    @property
    def err(self) -> str:
        return self._streams["err"].decode(errors="replace")

    def type(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def interrupt(self) -> None:
        """Ctrl-C."""
        os.killpg(self._process.pid, signal.SIGINT)

    def wait_for(self, what: Callable[[], bool], seconds: float) -> float:
        """Waits until `what` holds; gives the seconds it took."""
        started = time.monotonic()
        while not what():
            assert self._process.poll() is None or what(), f"ended early: {self.err}"
            assert time.monotonic() - started < seconds, f"nothing after {seconds} s: {self.err}"
            time.sleep(0.01)
        return time.monotonic() - started

    def finish(self, seconds: float) -> int:
        """Ends its input and gives the exit status."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        status = self._process.wait(seconds)
        for reader in self._readers:
            reader.join(5)
        return status

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        for reader in self._readers:
            reader.join(5)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None and not stream.closed:
                stream.close()
