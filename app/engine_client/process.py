"""Starts the engine's process, reads where it listens, and says when it has ended."""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QObject, QProcess, QTimer, Signal

from app.engine_client.failures import ENGINE_DIED, ENGINE_NOT_STARTED, failure

LOG_LINES = 40
# An engine that ends with its window does so within this; then it is ended for it.
GRACE_MS = 3000


@dataclass(frozen=True)
class Address:
    url: str
    token: str


def engine_command() -> list[str]:
    """The engine ends when its standard input does, so it never outlives the window."""
    return [sys.executable, "-P", "-m", "engine.cli", "serve", "--until-stdin-ends"]


class EngineProcess(QObject):
    """`listening` comes with the Address, `died` with the Failure if nobody asked it to end."""

    listening = Signal(object)
    died = Signal(object)

    def __init__(self, command: Sequence[str], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._command = list(command)
        self._process: QProcess | None = None
        self._log: deque[str] = deque(maxlen=LOG_LINES)
        self._output = b""
        self._heard = False

    @property
    def pid(self) -> int:
        return self._process.processId() if self._process is not None else 0

    def start(self) -> None:
        self.stop()
        self._log.clear()
        self._output = b""
        self._heard = False
        process = QProcess(self)
        process.readyReadStandardOutput.connect(self._read_output)
        process.readyReadStandardError.connect(self._read_errors)
        process.errorOccurred.connect(self._on_error)
        process.finished.connect(self._on_finished)
        self._process = process
        process.start(self._command[0], self._command[1:])

    def stop(self) -> None:
        """Ends the process; nothing is reported."""
        process, self._process = self._process, None
        if process is None:
            return
        for signal in (
            process.readyReadStandardOutput,
            process.readyReadStandardError,
            process.errorOccurred,
            process.finished,
        ):
            signal.disconnect()
        if process.state() == QProcess.ProcessState.NotRunning:
            process.deleteLater()
            return
        process.finished.connect(process.deleteLater)
        process.closeWriteChannel()
        grace = QTimer(process)
        grace.setSingleShot(True)
        grace.timeout.connect(process.kill)
        grace.start(GRACE_MS)

    def stop_and_wait(self) -> None:
        """For the window's own end: returns when the process is gone."""
        process = self._process
        self.stop()
        if process is None or process.state() == QProcess.ProcessState.NotRunning:
            return
        if not process.waitForFinished(GRACE_MS):
            process.kill()
            process.waitForFinished(GRACE_MS)

    def _read_output(self) -> None:
        if self._process is None or self._heard:
            return
        self._output += bytes(self._process.readAllStandardOutput().data())
        while not self._heard and b"\n" in self._output:
            line, self._output = self._output.split(b"\n", 1)
            address = _address(line)
            if address is not None:
                self._heard = True
                self.listening.emit(address)
            else:
                self._log.append(line.decode(errors="replace"))

    def _read_errors(self) -> None:
        if self._process is None:
            return
        text = bytes(self._process.readAllStandardError().data()).decode(errors="replace")
        self._log.extend(line for line in text.splitlines() if line.strip())

    def _on_error(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart and self._process is not None:
            reason = self._process.errorString()
            self._forget()
            self.died.emit(failure(ENGINE_NOT_STARTED, reason=reason))

    def _on_finished(self, code: int, status: QProcess.ExitStatus) -> None:
        self._read_output()
        self._read_errors()
        how = f"signal {code}" if status == QProcess.ExitStatus.CrashExit else f"status {code}"
        log = tuple(self._log)
        heard = self._heard
        self._forget()
        if heard:
            self.died.emit(failure(ENGINE_DIED, how=how, log=log))
        else:
            reason = log[-1] if log else how
            self.died.emit(failure(ENGINE_NOT_STARTED, reason=reason, log=log))

    def _forget(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.deleteLater()


def _address(line: bytes) -> Address | None:
    try:
        said: Any = json.loads(line)
        return Address(url=str(said["url"]), token=str(said["token"]))
    except (ValueError, KeyError, TypeError):
        return None
