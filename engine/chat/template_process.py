"""Keeps a template's process: starts it, asks it, and ends it at its limits."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import psutil

from engine.errors import TwofoldError

START_SECONDS = 60.0
POLL_SECONDS = 0.01


class TemplateRefused(TwofoldError):
    """The template calls this conversation invalid, in its own words (`reason`)."""

    code = "template.refused"


class TemplateFailed(TwofoldError):
    """The template has a mistake or an unknown construct (`reason`)."""

    code = "template.failed"


class TemplateOverLimit(TwofoldError):
    """The template took too much `what`; `limit` says how much is allowed, with its unit."""

    code = "template.over_limit"


@dataclass(frozen=True)
class TemplateLimits:
    """Seconds and bytes for one rendering, characters for the template itself."""

    seconds: float = 3.0
    memory_bytes: int = 512 * 2**20
    source_chars: int = 2**20


class TemplateProcess:
    """A compiled template in a child process. Used by one thread.

    The child starts at the first rendering, serves all that follow, is ended when a rendering
    breaks a limit, and starts again when next needed.
    """

    def __init__(
        self, source: str, *, bos_text: str, eos_text: str, limits: TemplateLimits
    ) -> None:
        if len(source) > limits.source_chars:
            raise TemplateOverLimit(what="text", limit=f"{limits.source_chars} characters")
        self._setup = {"source": source, "bos_token": bos_text, "eos_token": eos_text}
        self._limits = limits
        self._child: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def render(self, variables: dict[str, Any]) -> str:
        """The rendered text. Raises TemplateRefused, TemplateFailed or TemplateOverLimit."""
        if self._child is None or self._child.poll() is not None:
            self._start()
        return self._ask(variables)

    def close(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        if self._reader is not None:
            self._reader.join()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # unsent bytes that nobody will read
                    pipe.close()

    def _start(self) -> None:
        self.close()
        self._child = subprocess.Popen(
            # -P: a jinja2.py in the current folder is not ours to run.
            [sys.executable, "-P", "-m", "engine.chat.template_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        self._answers = queue.SimpleQueue()
        self._reader = threading.Thread(
            target=_read_lines, args=(self._child, self._answers), name="template", daemon=True
        )
        self._reader.start()
        self._answer(START_SECONDS)
        try:
            self._ask(self._setup)
        except TwofoldError:
            self.close()
            raise

    def _ask(self, request: dict[str, Any]) -> str:
        assert self._child is not None
        assert self._child.stdin is not None
        with contextlib.suppress(OSError):  # the child has ended, and the answer will say so
            self._child.stdin.write(json.dumps(request) + "\n")
            self._child.stdin.flush()
        answer = self._answer(self._limits.seconds)
        if "text" in answer:
            return answer["text"]
        if "refused" in answer:
            raise TemplateRefused(reason=answer["refused"])
        raise TemplateFailed(reason=answer["failed"])

    def _answer(self, seconds: float) -> dict[str, str]:
        """The child's next line; ends the child if time or memory runs out first."""
        assert self._child is not None
        deadline = time.monotonic() + seconds
        while True:
            try:
                line = self._answers.get(timeout=POLL_SECONDS)
            except queue.Empty:
                broken = self._broken_limit(self._child.pid, deadline)
                if broken is not None:
                    self.close()
                    raise broken from None
                continue
            if not line:
                self.close()
                raise TemplateFailed(reason="its process ended")
            return json.loads(line)

    def _broken_limit(self, pid: int, deadline: float) -> TemplateOverLimit | None:
        if time.monotonic() > deadline:
            return TemplateOverLimit(what="time", limit=f"{self._limits.seconds:g} s")
        try:
            used = psutil.Process(pid).memory_info().rss
        except psutil.Error:
            return None  # it has just ended
        if used > self._limits.memory_bytes:
            allowed = f"{self._limits.memory_bytes / 2**20:.0f} MiB"
            return TemplateOverLimit(what="memory", limit=allowed)
        return None


def _read_lines(child: subprocess.Popen[str], answers: queue.SimpleQueue[str]) -> None:
    """Passes the child's lines on, and an empty one at its end."""
    assert child.stdout is not None
    for line in child.stdout:
        answers.put(line)
    answers.put("")
