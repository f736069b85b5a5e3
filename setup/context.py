"""Where the set-up works, what is pinned, what is already done, and how it runs other programs."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from setup.progress import Progress
from setup.words import SetupError

GIB = 1 << 30
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def cache_folder(environ: Mapping[str, str]) -> Path:
    """The same folder as `engine.paths.cache_folder`, which is not installed yet."""
    if moved := environ.get("TWOFOLD_CACHE"):
        return Path(moved).absolute()
    if home := environ.get("TWOFOLD_HOME"):
        return Path(home).absolute() / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches/twofold"
    base = environ.get("XDG_CACHE_HOME", "").strip()
    return (Path(base) if base else Path.home() / ".cache") / "twofold"


@dataclass
class Context:
    """One run of the set-up for the checkout `root`."""

    root: Path
    cache: Path
    progress: Progress = field(default_factory=Progress)
    held_locks: list[int] = field(default_factory=list[int])

    @property
    def venv(self) -> Path:
        return self.root / ".venv"

    @property
    def python(self) -> Path:
        return self.venv / "bin" / "python"

    @property
    def logs(self) -> Path:
        return self.root / "build" / "setup"

    def pins(self, table: str) -> dict[str, str]:
        """The table `tool.twofold.<table>` of pyproject.toml."""
        project = tomllib.loads((self.root / "pyproject.toml").read_text(encoding="utf-8"))
        pins: dict[str, str] = project["tool"]["twofold"][table]
        return pins

    def done(self, step: str) -> Any:
        """What `record` stored for `step` in this environment; None if it has not been done."""
        try:
            records = json.loads((self.venv / "twofold.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return records.get(step)

    def record(self, step: str, value: Any) -> None:
        """Notes inside the environment that `step` is done, and with what."""
        path = self.venv / "twofold.json"
        try:
            records = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            records = {}
        write_whole(path, json.dumps({**records, step: value}, indent=1))

    def need_space(self, folder: Path, size: int) -> None:
        """Raises SetupError disk.full unless `size` bytes are free where `folder` is or will be."""
        existing = next(path for path in (folder, *folder.parents) if path.exists())
        if shutil.disk_usage(existing).free < size:
            raise SetupError("disk.full", folder=folder, needed=f"{size / GIB:.1f} GiB")

    def run(
        self,
        command: Sequence[str | Path],
        *,
        what: str,
        log: str,
        extra_environ: Mapping[str, str] | None = None,
        folder: Path | None = None,
        on_line: Callable[[str], None] | None = None,
    ) -> str:
        """Runs a program to its end and returns its output, which also goes to the log `log`.

        Raises SetupError if it fails. Ctrl-C, or any error here, ends it with all its children.
        """
        path = self.logs / f"{log}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._start(command, folder or self.root, extra_environ or {}) as child:
            try:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
                output = self._follow(child, path, on_line)
            except BaseException:
                _end(child)
                raise
        if child.returncode != 0:
            raise failure(output, what=what, log=path, folder=self.cache)
        return output

    def _start(
        self, command: Sequence[str | Path], folder: Path, extra_environ: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        """Starts a program and leaves STOPS blocked, so that no stop slips in before it is
        watched and leaves it running."""
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        try:
            return subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={**os.environ, **extra_environ},
                start_new_session=True,
                pass_fds=self.held_locks,
                preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS),
            )
        except BaseException:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
            raise

    def _follow(
        self, child: subprocess.Popen[bytes], log: Path, on_line: Callable[[str], None] | None
    ) -> str:
        assert child.stdout
        text, unfinished = "", ""
        with log.open("w", encoding="utf-8") as file:
            while True:
                self.progress.tick()
                if not select.select([child.stdout], [], [], 0.2)[0]:
                    continue
                chunk = os.read(child.stdout.fileno(), 1 << 16)
                if not chunk:
                    return text
                new = chunk.decode(errors="replace")
                file.write(new)
                text += new
                *lines, unfinished = (unfinished + new).split("\n")
                if on_line:
                    for line in lines:
                        on_line(line)


def failure(output: str, *, what: str, log: Path, folder: Path) -> SetupError:
    """The error that a failed program's output speaks of."""
    if "No space left on device" in output or os.strerror(errno.ENOSPC) in output:
        return SetupError("disk.full", folder=folder, needed="up to 3 GiB")
    if "DO NOT MATCH THE HASHES" in output:
        return SetupError("hash.mismatch", what=what)
    if re.search(
        r"NewConnectionError|NameResolutionError|ConnectTimeout|ReadTimeout|ProxyError|SSLError"
        r"|connection error|Connection (broken|reset|aborted)|Network is unreachable",
        output,
    ):
        return SetupError("network.unreachable", what=what)
    if "No matching distribution found" in output:
        return SetupError("package.not_found", what=what, log=log)
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    # A compiler's own line tells more than what its callers say about it.
    patterns = (r"\S: (fatal )?error: |CMake Error|ld: ", r"\berror\b", "")
    telling = [line for pattern in patterns for line in lines if re.search(pattern, line)]
    detail = telling[0][:200] if telling else "it said nothing"
    return SetupError("step.failed", step=what[:1].upper() + what[1:], detail=detail, log=log)


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ends a child and all its children: politely, so that they remove half-written files."""
    for number, patience_s in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0)):
        deadline = time.monotonic() + patience_s
        try:
            os.killpg(child.pid, number)
            while time.monotonic() < deadline:
                child.poll()
                os.killpg(child.pid, 0)
                time.sleep(0.05)
        except ProcessLookupError:
            return


def write_whole(path: Path, text: str) -> None:
    """Replaces a file in one step, so that nobody ever reads half of it."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def digest(*parts: str | bytes) -> str:
    """A short hash of the parts and of where each ends."""
    whole = hashlib.sha256()
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        whole.update(f"{len(raw)}:".encode() + raw)
    return whole.hexdigest()[:20]


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
