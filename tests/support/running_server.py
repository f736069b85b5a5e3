"""A real engine in its own process, on a real socket, with a home of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import httpx
import psutil

from engine.api.client import EngineClient

START_S = 60


class RunningServer:
    """What it printed when it began to listen, and what it wrote to stderr since."""

    def __init__(self, process: subprocess.Popen[str], address: dict[str, Any]) -> None:
        self.process = process
        self.url: str = address["url"]
        self.port: int = address["port"]
        self.token: str = address["token"]
        self.address = address
        self.stderr: list[str] = []
        assert process.stderr is not None
        self._reader = threading.Thread(target=self._read, args=(process.stderr,), daemon=True)
        self._reader.start()

    def _read(self, stream: IO[str]) -> None:
        self.stderr.extend(stream)

    def client(self) -> EngineClient:
        return EngineClient(self.url, self.token)

    def http(self, **options: Any) -> httpx.Client:
        return httpx.Client(
            base_url=self.url,
            headers={"authorization": f"Bearer {self.token}"},
            timeout=60,
            trust_env=False,
            **options,
        )

    @property
    def worker(self) -> psutil.Process:
        with self.client() as client:
            pid = client.state().worker_pid
        assert pid is not None
        return psutil.Process(pid)

    def end(self) -> int:
        """Ends it as the window does, and gives the exit status."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        status = self.process.wait(20)
        self._reader.join(5)
        return status


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "engine.cli", "serve", "--until-stdin-ends", *arguments]


@contextmanager
def running_server(
    home: Path, *arguments: str, environment: dict[str, str] | None = None
) -> Generator[RunningServer]:
    process = subprocess.Popen(
        command(*arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TWOFOLD_HOME": str(home), **(environment or {})},
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.stderr.read() if process.stderr else ""
        server = RunningServer(process, json.loads(line))
        yield server
        if process.poll() is None:
            server.end()
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def until(true: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)
