"""Carries out one download: all files of a model, each verified, then all into the library.

Nothing is under its final name before every file is whole: a model is in the library entirely or
not at all. Files that are here already are not fetched again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.api.models import Progress
from engine.api.plan import Remark
from engine.downloads.errors import CannotWrite, DiskFull, RemoteChanged, WrongBytes
from engine.downloads.hub import Hub
from engine.downloads.jobs import Download, Job, Queue, WantedFile
from engine.downloads.rate import Rate
from engine.downloads.staging import Staging
from engine.downloads.transfer import Doing, Limits, Listener, Mismatch, Remote, Transfer
from engine.library import copying
from engine.library.copying import Work
from engine.library.errors import NameTaken
from engine.library.library import Library
from engine.library.origins import now

_MOST_MISMATCHES = 2
_MOST_RESTARTS = 1

# Takes a download's repo and variants, and gives the same download as the hub has it now.
Renew = Callable[[Download], Download]


class Meter:
    """A job's progress, as it is to be shown."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self.doing: Doing | None = None
        self.came = 0
        self._rate = Rate()

    def add(self, count: int) -> None:
        """So much more is there, from wherever."""
        self.done += count

    def received(self, count: int) -> None:
        """So much came now: what rate and estimate go by."""
        self.came += count
        self._rate.add(count)

    def progress(self) -> Progress:
        return Progress(
            done=self.done,
            total=self.total,
            rate=self._rate.per_second(),
            remaining_s=self._rate.remaining_s(self.total - self.done),
            doing=self.doing.words if self.doing else None,
            step=self.doing.step if self.doing else None,
        )


@dataclass
class Shared:
    """What all downloads of a runner share. `places` limits how many files come at once."""

    library: Library
    queue: Queue
    hub: Hub
    transfer: Transfer
    limits: Limits
    places: asyncio.Semaphore
    renew: Renew
    free: Callable[[Path], int]


async def download(job: Job, work: Download, shared: Shared, meter: Meter) -> str:
    """Gives the path of what was downloaded. Raises what went wrong; what came is kept."""
    while True:
        try:
            return await _Fetching(job, work, shared, meter).run()
        except RemoteChanged:
            if work.restarts >= _MOST_RESTARTS:
                raise
            renewed = await asyncio.to_thread(shared.renew, work)
            work = renewed.model_copy(update={"restarts": work.restarts + 1})
            shared.queue.change_work(job.id, work)
            text = (
                f"{work.repo} changed on the hub while it was downloaded, so its new files are "
                "fetched instead."
            )
            remark = Remark(code="repo_changed", sentence=text, data={"repo": work.repo})
            shared.queue.notice(job.id, remark)
            meter.done, meter.total = 0, sum(file.bytes for file in work.files)


class _Fetching:
    def __init__(self, job: Job, work: Download, shared: Shared, meter: Meter) -> None:
        self._job = job
        self._work = work
        self._shared = shared
        self._meter = meter
        self._main = shared.library.folders.main
        self._staging = Staging(self._main)
        self._mismatches = dict(work.mismatches)

    async def run(self) -> str:
        self._shared.hub.require_online()
        self._staging.make()
        wanted = [file for file in self._work.files if not await self._is_there(file)]
        there = sum(file.bytes for file in self._work.files) - sum(file.bytes for file in wanted)
        self._meter.done = there
        self._require_room(wanted)
        await self._fetch_all(list({file.sha256: file for file in wanted}.values()))
        await asyncio.to_thread(self._place, wanted)
        return str(self._target(self._work.files[0]))

    # --- what is here already ------------------------------------------------------------------

    async def _is_there(self, file: WantedFile) -> bool:
        """Whether the very file is at its place. Raises NameTaken for one of the user's own."""
        target = self._target(file)
        if not target.exists():
            return False
        status = target.stat()
        known = self._shared.library.origins.of(target)
        same = known is not None and known.describes(status.st_size, status.st_mtime_ns)
        if known is not None and same and known.verified_at and known.sha256 == file.sha256:
            return True
        if status.st_size == file.bytes:
            self._meter.doing = Doing("checking", f"checking {target.name}, which is there")
            found = await asyncio.to_thread(copying.sha256_of, target, Work("", 0))
            self._meter.doing = None
            if found == file.sha256:
                self._remember(file, target)
                return True
        if known is None or known.origin.repo != self._work.repo:
            raise NameTaken(path=str(target))
        return False  # an earlier version of the repo's; it is replaced when the new one is whole

    def _require_room(self, wanted: list[WantedFile]) -> None:
        folder = self._staging.folder
        missing = sum(
            max(0, file.bytes - self._staging.have(file.sha256))
            for file in {file.sha256: file for file in wanted}.values()
        )
        needed, free = missing + self._shared.limits.margin, self._shared.free(folder)
        if missing and free < needed:
            raise DiskFull(folder=str(folder), free=free, needed=needed)

    # --- fetching ------------------------------------------------------------------------------

    async def _fetch_all(self, files: list[WantedFile]) -> None:
        """All of them, or the first error; the others are stopped and keep what they have."""
        tasks = [asyncio.ensure_future(self._fetch(file)) for file in files]
        try:
            if tasks:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)
            for task in tasks:  # an error that comes while stopping says nothing new
                if not task.cancelled():
                    task.exception()

    async def _fetch(self, file: WantedFile) -> None:
        async with self._shared.places:
            part = self._staging.part(file.sha256)
            await asyncio.to_thread(self._take_from_library, file, part)
            while True:
                try:
                    await self._shared.transfer.fetch(self._remote(file), part, self._listener())
                    return
                except Mismatch as error:
                    self._staging.quarantine(file.sha256)
                    self._meter.add(-file.bytes)
                    self._count_mismatch(file, error)

    def _count_mismatch(self, file: WantedFile, error: Mismatch) -> None:
        """Raises WrongBytes the second time; counted on disk, so that a restart does not forget."""
        count = self._mismatches.get(file.sha256, 0) + 1
        self._mismatches[file.sha256] = count
        self._work = self._work.model_copy(update={"mismatches": dict(self._mismatches)})
        self._shared.queue.change_work(self._job.id, self._work)
        if count >= _MOST_MISMATCHES:
            raise WrongBytes(file=file.path, expected=file.sha256, found=error.found)
        text = f"{file.path} came with wrong bytes and was fetched again."
        remark = Remark(code="fetched_again", sentence=text, data={"file": file.path})
        self._shared.queue.notice(self._job.id, remark)

    def _take_from_library(self, file: WantedFile, part: Path) -> None:
        """The same bytes may be in the library under another name; a link costs nothing."""
        if part.exists():
            return
        for known in self._shared.library.origins.all().values():
            if known.sha256 != file.sha256 or known.verified_at is None:
                continue
            with contextlib.suppress(OSError):
                status = known.path.stat()
                if known.describes(status.st_size, status.st_mtime_ns):
                    try:
                        os.link(known.path, part)
                    except OSError:
                        shutil.copyfile(known.path, part)
                    return

    def _remote(self, file: WantedFile) -> Remote:
        return Remote(self._work.repo, file.path, self._work.commit, file.bytes, file.sha256)

    def _listener(self) -> Listener:
        def doing(what: Doing | None) -> None:
            self._meter.doing = what

        return Listener(self._meter.add, self._meter.received, doing)

    # --- into the library ----------------------------------------------------------------------

    def _place(self, wanted: list[WantedFile]) -> None:
        """Gives verified parts their names: a split model's first part last, since without it
        the others are no model."""
        placed: dict[str, Path] = {}
        for file in reversed(wanted):
            target, part = self._target(file), self._staging.part(file.sha256)
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                if file.sha256 in placed:  # the same bytes twice in one repo
                    part = part.with_suffix(".twin.part")
                    shutil.copyfile(placed[file.sha256], part)
                # Remembered first: a file that has its name is never one that is not known.
                self._remember(file, part, target)
                part.replace(target)
                copying.sync_folder(target.parent)
            except OSError as error:
                reason = error.strerror or str(error)
                raise CannotWrite(path=str(target), reason=reason) from error
            placed[file.sha256] = target

    def _remember(self, file: WantedFile, now_at: Path, target: Path | None = None) -> None:
        status = now_at.stat()
        self._shared.library.origins.put(
            target or now_at,
            self._work.origin,
            size=status.st_size,
            mtime_ns=status.st_mtime_ns,
            sha256=file.sha256,
            verified_at=now(),
        )

    def _target(self, file: WantedFile) -> Path:
        return self._main / file.target
