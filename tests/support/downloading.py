"""A library, a queue and a runner in one temporary folder, with impatient limits."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from engine.downloads.hub import Hub
from engine.downloads.jobs import Download, Job, Queue
from engine.downloads.ordering import order, renew
from engine.downloads.runner import Runner
from engine.downloads.token import Token
from engine.downloads.transfer import Limits
from engine.library.database import Database
from engine.library.library import Folders, Library
from engine.settings import DownloadSettings

QUICK = Limits(
    stall_s=1.0,
    slow_rate=20_000.0,
    slow_s=0.6,
    attempts=5,
    wait_s=0.01,
    longest_wait_s=0.05,
    space_bytes=4096,
    write_s=0.0,
    margin=0,
)
ENDED = ("done", "failed", "cancelled", "paused")


@dataclass
class Downloading:
    """Everything of one process; make another for the next process on the same folder."""

    folder: Path
    library: Library
    queue: Queue
    hub: Hub
    runner: Runner
    settings: DownloadSettings

    @property
    def main(self) -> Path:
        return self.library.folders.main

    def order(self, text: str, *, priority: int = 0, projector: bool = True) -> Job:
        work, title = order(self.hub, text, projector=projector)
        total = sum(file.bytes for file in work.files)
        return self.queue.add(work, title, priority=priority, total=total)

    def run(self, *jobs: Job, timeout_s: float = 60) -> list[Job]:
        """Works until all of them have ended, one way or another."""
        end = time.monotonic() + timeout_s

        def ended() -> bool:
            states = [self.queue.get(job.id).state for job in jobs]
            assert time.monotonic() < end, states
            return all(state in ENDED for state in states)

        self.runner.run(until=ended)
        return [self.queue.get(job.id) for job in jobs]

    def pull(self, text: str, **options: bool) -> Job:
        return self.run(self.order(text, **options))[0]

    def files(self) -> dict[str, bytes]:
        """All files of the library's main folder, leftovers of downloads included."""
        return {
            path.relative_to(self.main).as_posix(): path.read_bytes()
            for path in sorted(self.main.rglob("*"))
            if path.is_file()
        }

    def wait(self, condition: Callable[[], bool], timeout_s: float = 20) -> None:
        end = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < end
            time.sleep(0.01)

    def close(self) -> None:
        self.runner.close()
        self.library.database.close()


def make_downloading(
    folder: Path,
    *,
    limits: Limits = QUICK,
    free: Callable[[Path], int] | None = None,
    token: str | None = None,
    parallel: int = 3,
    bandwidth_mb: float = 0.0,
    **changed: float,
) -> Downloading:
    """`changed` are fields of the limits."""
    database = Database(folder / "data" / "models.sqlite")
    main = folder / "models"
    main.mkdir(parents=True, exist_ok=True)
    folders = Folders(main)
    library = Library(database, lambda: folders)
    queue = Queue(database)
    hub = Hub(find=lambda: Token(token, "environment" if token else "none"))
    settings = DownloadSettings(parallel=parallel, bandwidth_mb=bandwidth_mb)

    def again(work: Download) -> Download:
        return renew(hub, work)

    def remember(new: Path) -> None:
        nonlocal folders
        folders = Folders(new)

    runner = Runner(
        library,
        queue,
        hub,
        settings=lambda: settings,
        renew=again,
        remember_folder=remember,
        limits=replace(limits, **changed) if changed else limits,  # type: ignore[arg-type]
        free=free or (lambda where: shutil.disk_usage(where).free),
    )
    return Downloading(folder, library, queue, hub, runner, settings)


def in_background(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread
