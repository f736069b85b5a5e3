"""Kills a process that downloads, again and again at random moments, and checks what it leaves.

    python -m tests.support.kill_downloads FOLDER KILLS SEED

Prints one JSON object: how many kills and whole downloads there were, and everything that was
found wrong. Runs as a process of its own, because it forks.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from engine.downloads.staging import Staging
from tests.support.downloading import Downloading, make_downloading
from tests.support.hub import Faults, LocalHub

REPO = "somebody/Model-GGUF"
NAMES = [f"Model-Q4_0-{no:05d}-of-00003.gguf" for no in range(1, 4)]
_LONGEST_LIFE_S = 0.5


@dataclass
class Report:
    kills: int = 0
    downloads: int = 0
    kills_while_fetching: int = 0
    wrong: list[str] = field(default_factory=list[str])


class Killer:
    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.chance = random.Random(seed)
        self.report = Report()
        self.hub = LocalHub()
        self.data = {
            name: random.Random(f"{seed}{name}").randbytes(150_000 + 1000 * no)
            for no, name in enumerate(NAMES)
        }
        self.remote = self.hub.add(REPO, self.data)
        self.hashes = {file: digest for digest, file in self._hashes()}

    def _hashes(self) -> list[tuple[str, str]]:
        import hashlib

        return [(hashlib.sha256(data).hexdigest(), name) for name, data in self.data.items()]

    def run(self, kills: int) -> Report:
        with self.hub:
            os.environ["HF_ENDPOINT"] = self.hub.url
            self.hub.chance = self._fault
            job_id = self._order()
            while self.report.kills < kills:
                if self._live(self.chance.uniform(0.03, _LONGEST_LIFE_S)):
                    self._check(job_id)
                    job_id = self._order()
            while not self._live(60.0):
                pass
            self._check(job_id)
        return self.report

    def _fault(self, path: str) -> Faults:
        """Slow enough to be killed on the way; some connections are cut, some addresses expired."""
        del path
        kind = self.chance.random()
        if kind < 0.1:
            return Faults(expired=True)
        if kind < 0.3:
            return Faults(cut_after=self.chance.randrange(150_000), drip_s=0.0005)
        return Faults(drip_s=0.0005)

    def _open(self) -> Downloading:
        return make_downloading(self.folder, parallel=2)

    def _order(self) -> str:
        program = self._open()
        for path in program.main.rglob("*.gguf"):  # taken out: to be fetched once more
            path.unlink()
        job = program.order(REPO)
        program.close()
        return job.id

    def _live(self, seconds: float) -> bool:
        """One process, killed after `seconds` if it has not finished by then; whether it has."""
        before = {name: self._have(name) for name in NAMES}
        done = {name for name in NAMES if (self.folder / "models" / REPO / name).exists()}
        seen = len(self.hub.requests)
        child = os.fork()
        if child == 0:
            self._work()
        end = time.monotonic() + seconds
        status = None
        while status is None and time.monotonic() < end:
            time.sleep(0.002)
            found, code = os.waitpid(child, os.WNOHANG)
            status = code if found else None
        if status is None:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            self.report.kills += 1
            self.report.kills_while_fetching += any(self._have(name) for name in NAMES)
        elif status != 0:
            self.report.wrong.append(f"the process ended with {status}")
        self._check_requests(seen, before, done)
        self._check_library()
        return status is not None

    def _work(self) -> None:
        try:
            program = self._open()
            jobs = [job for job in program.queue.jobs() if job.state in ("queued", "running")]
            ended = program.run(*jobs)
            os._exit(0 if all(job.state == "done" for job in ended) else 3)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(4)

    def _have(self, name: str) -> int:
        return Staging(self.folder / "models").have(self.hashes[name])

    def _check_requests(self, seen: int, before: dict[str, int], done: set[str]) -> None:
        """A process begins each file where the one before it was killed."""
        first: set[str] = set()
        for _, path, headers in self.hub.requests[seen:]:
            name = path.rpartition("/")[2]
            start = re.fullmatch(r"bytes=(\d+)-\d+", headers.get("range", ""))
            if "/resolve/" not in path or start is None:
                continue
            if name in done:
                self.report.wrong.append(f"{name} was asked for though it was there")
            elif name not in first and int(start[1]) != before[name]:
                self.report.wrong.append(f"{name}: from {start[1]}, {before[name]} were there")
            first.add(name)

    def _check_library(self) -> None:
        """Whatever has its name is whole."""
        for name, data in self.data.items():
            path = self.folder / "models" / REPO / name
            if path.exists() and path.read_bytes() != data:
                self.report.wrong.append(f"{name} is in the library and not whole")

    def _check(self, job_id: str) -> None:
        """A job that ended: everything is there, and nothing else is."""
        program = self._open()
        expected = {f"{REPO}/{name}": data for name, data in self.data.items()}
        if program.files() != expected:
            self.report.wrong.append(f"after the download there are {sorted(program.files())}")
        if program.queue.get(job_id).state != "done":
            self.report.wrong.append(f"the job is {program.queue.get(job_id).state}")
        origins = program.library.origins
        for name in expected:
            known = origins.of(program.main / name)
            if known is None or known.verified_at is None:
                self.report.wrong.append(f"{name} is not known to be verified")
        program.close()
        self.report.downloads += 1


if __name__ == "__main__":
    killer = Killer(Path(sys.argv[1]), int(sys.argv[3]))
    print(json.dumps(asdict(killer.run(int(sys.argv[2])))))
