"""Starts the worker's process, passes lines to and from it, and says how it ended."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.api.failure import Failure
from engine.backends.device_memory import facts as shortage_facts
from engine.backends.device_memory import shortage
from engine.errors import TwofoldError
from engine.server.errors import failure_of
from engine.worker.protocol import MAX_LINE, REPLY, Command, Reply

COMMAND_LINE = (sys.executable, "-P", "-m", "engine.worker")
LOG_LINES = 50
# A worker that is told to end has this long to do so.
END_S = 3.0
LOG_END_S = 1.0


class WorkerEnded(TwofoldError):
    """The model's process ended. Data: `pid`, `exit_status`, `signal`, `last_line`, `doing`."""

    code = "worker.exited"


class WorkerKilled(WorkerEnded):
    code = "worker.killed"


class WorkerOutOfMemory(WorkerEnded):
    code = "worker.out_of_memory"


class WorkerAborted(WorkerEnded):
    code = "worker.aborted"


class WorkerDeviceMemory(WorkerEnded):
    """A device's memory ran out. Data as above, and `device`, `wanted`, `free`, `holders`."""

    code = "worker.device_memory"


class WorkerIllegalInstruction(WorkerEnded):
    code = "worker.illegal_instruction"


class WorkerCrashed(WorkerEnded):
    code = "worker.crashed"


class WorkerHung(WorkerEnded):
    """It was told to stop its work, did not, and was killed. Data as above, and `seconds`."""

    code = "worker.hung"


_BY_SIGNAL: dict[str, type[WorkerEnded]] = {
    "SIGKILL": WorkerKilled,
    "SIGABRT": WorkerAborted,
    "SIGILL": WorkerIllegalInstruction,
    "SIGSEGV": WorkerCrashed,
    "SIGBUS": WorkerCrashed,
    "SIGFPE": WorkerCrashed,
}
_DOING = {
    "ask": "answering",
    "complete": "answering",
    "loading": "being loaded",
    "ready": "waiting",
}
# What Windows gives as the exit status of a process that broke a rule.
_WINDOWS_STATUS = {0xC0000005: "SIGSEGV", 0xC000001D: "SIGILL", 0xC0000409: "SIGABRT"}
# Of the library's parting words; what follows them may be a backtrace.
_TELLING = re.compile(r"GGML_ASSERT|ggml_abort|error|failed|out of memory|what\(\)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class End:
    """How a worker ended; `out_of_memory` if the kernel killed something for memory meanwhile."""

    pid: int
    status: int
    log: tuple[str, ...]
    out_of_memory: bool = False
    hung_s: float | None = None

    @property
    def signal(self) -> str | None:
        if self.status < 0:
            with contextlib.suppress(ValueError):
                return signal.Signals(-self.status).name
        return _WINDOWS_STATUS.get(self.status & 0xFFFFFFFF)

    def failure(self, doing: str) -> Failure:
        """What happened, in words; `doing` is what the worker was at."""
        facts = {
            "pid": self.pid,
            "exit_status": self.status,
            "signal": self.signal,
            "last_line": _last_words(self.log),
            "doing": _DOING.get(doing, doing),
        }
        if self.hung_s is not None:
            error: TwofoldError = WorkerHung(**facts, seconds=self.hung_s)
        elif self.signal == "SIGKILL" and self.out_of_memory:
            error = WorkerOutOfMemory(**facts)
        elif (short := shortage(self.log)) is not None:
            error = WorkerDeviceMemory(**facts, **shortage_facts(short))
        else:
            error = _BY_SIGNAL.get(self.signal or "", WorkerEnded)(**facts)
        return failure_of(error).model_copy(update={"log": self.log})


def _last_words(log: Sequence[str]) -> str:
    """The last line that tells something, of those before Python's own account of the crash."""
    own = next((at for at, line in enumerate(log) if line.startswith("Fatal Python error")), None)
    lines = list(log[:own]) or list(log[:1]) or ["no message"]
    telling = [line for line in lines if _TELLING.search(line)]
    return (telling or lines)[-1].strip()


class WorkerProcess:
    """One worker. `on_reply` is called for each reply, `on_end` once, after the last one."""

    def __init__(self, process: asyncio.subprocess.Process, on_log: Callable[[str], None]) -> None:
        self._process = process
        self._on_log = on_log
        self._log: deque[str] = deque(maxlen=LOG_LINES)
        self._oom_kills = _oom_kills()
        self._hung_s: float | None = None
        self._reading: asyncio.Task[None]
        self.ending = False

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        *,
        on_reply: Callable[[WorkerProcess, Reply], None],
        on_end: Callable[[WorkerProcess, End], None],
        on_log: Callable[[str], None],
    ) -> WorkerProcess:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=MAX_LINE,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        worker = cls(process, on_log)
        worker._reading = asyncio.create_task(worker._run(on_reply, on_end))
        return worker

    @property
    def pid(self) -> int:
        return self._process.pid

    async def send(self, command: Command) -> None:
        """Does nothing for a worker that has ended: its end is told in another way."""
        stdin = self._process.stdin
        assert stdin is not None
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            stdin.write(command.model_dump_json().encode() + b"\n")
            await stdin.drain()

    def kill_hung(self, seconds: float) -> None:
        self._hung_s = seconds
        self._kill()

    async def end(self) -> None:
        """Asks the worker to end, and makes it. Returns when it has."""
        self.ending = True
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), END_S)
        except TimeoutError:
            self._kill()
        await self._reading

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def _run(
        self,
        on_reply: Callable[[WorkerProcess, Reply], None],
        on_end: Callable[[WorkerProcess, End], None],
    ) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        logs = asyncio.create_task(self._read_log())
        try:
            # A worker that is killed may leave the last line unfinished.
            while (line := await stdout.readline()).endswith(b"\n"):
                on_reply(self, REPLY.validate_json(line))
        except ValueError as error:  # not what a worker says, or endless
            self._log.append(f"unreadable reply: {type(error).__name__}")
            self._kill()
        status = await self._process.wait()
        with contextlib.suppress(TimeoutError):  # a child of the worker's may still hold the pipe
            await asyncio.wait_for(logs, LOG_END_S)
        on_end(
            self,
            End(
                pid=self.pid,
                status=status,
                log=tuple(self._log),
                out_of_memory=_oom_kills() > self._oom_kills,
                hung_s=self._hung_s,
            ),
        )

    async def _read_log(self) -> None:
        stderr = self._process.stderr
        assert stderr is not None
        while line := await stderr.readline():
            text = line.decode("utf-8", "replace").rstrip()
            if text:
                self._log.append(text)
                self._on_log(text)


def _oom_kills() -> int:
    """How many processes the kernel has ended for memory since it started; 0 where unknown."""
    try:
        text = Path("/proc/vmstat").read_text(encoding="ascii")
    except OSError:
        return 0
    found = re.search(r"^oom_kill (\d+)$", text, re.MULTILINE)
    return int(found[1]) if found else 0
