"""Fetches one file: resumes from what is there, retries with back-off, and ends only when the
bytes have the hub's hash.

Each attempt asks the hub itself again, so an address that a redirect gave and that has expired
since does no harm. The hash is taken while bytes are written; what was there before is read.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, TypeVar

import httpx2

from engine.downloads.errors import (
    CannotWrite,
    ConnectionCut,
    DiskFull,
    GaveUp,
    HubFailed,
    RateLimited,
    RemoteChanged,
    RevisionNotFound,
    Stalled,
    WrongLength,
)
from engine.downloads.hub import Hub, wait_of
from engine.downloads.network import network_error, reason_of
from engine.downloads.throttle import Throttle
from engine.errors import TwofoldError
from engine.library.copying import MARGIN
from engine.words import sentence

_A = TypeVar("_A")
_R = TypeVar("_R")

_SHA256 = re.compile(r"[0-9a-f]{64}")
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")
_PIECE = 1 << 20
_READ_PIECE = 16 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds, bytes, bytes a second. `attempts` in a row may bring next to nothing.

    `range_bytes` is the most that one request asks for: content networks refuse to send files
    of more than 50 GB whole. `space_bytes`: how often free space is looked at. `write_s`: how long
    what came may wait for more before it is written; a process that is killed loses that much.
    After `attempts`, the download is given up for `again_s`, then twice that, and so on.
    """

    stall_s: float = 30.0
    slow_rate: float = 2048.0
    slow_s: float = 60.0
    attempts: int = 8
    wait_s: float = 1.0
    longest_wait_s: float = 60.0
    again_s: float = 30.0
    longest_again_s: float = 600.0
    range_bytes: int = 8 << 30
    space_bytes: int = 32 << 20
    write_s: float = 0.25
    margin: int = MARGIN


@dataclass(frozen=True, slots=True)
class Remote:
    """A file of the hub's, as its listing describes it."""

    repo: str
    path: str
    commit: str
    bytes: int
    sha256: str


class Mismatch(Exception):
    """All bytes came, and they have another hash: `found`."""

    def __init__(self, found: str) -> None:
        super().__init__(found)
        self.found = found


@dataclass(frozen=True, slots=True)
class Doing:
    """What is done instead of fetching, also in words."""

    step: Literal["checking", "waiting"]
    words: str


@dataclass(frozen=True)
class Listener:
    """`on_bytes`: so many more are there (fewer, if negative); `on_received`: so many came from
    the network; `on_doing`: what is being done, or None for fetching."""

    on_bytes: Callable[[int], None]
    on_received: Callable[[int], None]
    on_doing: Callable[[Doing | None], None]


class Transfer:
    def __init__(
        self,
        client: httpx2.AsyncClient,
        hub: Hub,
        throttle: Throttle,
        limits: Limits,
        free: Callable[[Path], int],
    ) -> None:
        self._client = client
        self._hub = hub
        self._throttle = throttle
        self._limits = limits
        self._free = free

    async def fetch(self, remote: Remote, part: Path, listener: Listener) -> None:
        """Returns when `part` holds the file's very bytes.

        Raises Mismatch, RemoteChanged, DiskFull, CannotWrite, GaveUp, and what the hub refuses
        with. Whatever happens, what came is kept in `part`.
        """
        with _Part(part, remote, listener, self._limits.write_s) as file:
            await file.take_in()
            failures = 0
            while file.have < remote.bytes:
                before = file.have
                try:
                    await self._attempt(remote, file, listener)
                except (Stalled, ConnectionCut, WrongLength, RateLimited, HubFailed) as error:
                    await file.flush()
                    gained = file.have - before
                    failures = 0 if gained >= min(_PIECE, remote.bytes // 64 + 1) else failures + 1
                    if failures >= self._limits.attempts:
                        if isinstance(error, WrongLength):
                            raise
                        reason = sentence(error) if isinstance(error, HubFailed) else _why(error)
                        raise GaveUp(file=remote.path, attempts=failures, reason=reason) from error
                    await self._wait(error, failures, listener)
            file.sync()
            if (found := file.digest()) != remote.sha256:
                raise Mismatch(found)

    # --- one attempt ---------------------------------------------------------------------------

    async def _attempt(self, remote: Remote, file: _Part, listener: Listener) -> None:
        end = min(remote.bytes, file.have + self._limits.range_bytes)
        headers = {**self._hub.headers(), "range": f"bytes={file.have}-{end - 1}"}
        url = self._hub.file_url(remote.repo, remote.path, remote.commit)
        try:
            async with self._client.stream("GET", url, headers=headers) as response:
                listener.on_doing(None)
                self._check_same(remote, response)
                self._check_status(remote, response)
                await self._check_range(remote, file, response)
                await self._receive(remote, file, response, end, listener)
        except httpx2.TimeoutException as error:
            raise Stalled(file=remote.path, seconds=self._limits.stall_s) from error
        except httpx2.TransportError as error:
            certificate = network_error(error, self._hub.endpoint)
            if certificate.code == "hub.certificate":
                raise certificate from error
            raise ConnectionCut(file=remote.path, reason=reason_of(error)) from error
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:  # endless redirects, odd addresses
            raise ConnectionCut(file=remote.path, reason=reason_of(error)) from error

    def _check_same(self, remote: Remote, response: httpx2.Response) -> None:
        """The hub names the content with every answer; another content is another file."""
        first = response.history[0] if response.history else response
        if first.is_error or not self._from_hub(first):
            return
        tag = first.headers.get("x-linked-etag") or first.headers.get("etag") or ""
        tag = tag.removeprefix("W/").strip('"').lower()
        size = first.headers.get("x-linked-size", "")
        changed = _SHA256.fullmatch(tag) is not None and tag != remote.sha256
        if changed or (size.isdecimal() and int(size) != remote.bytes):
            raise RemoteChanged(repo=remote.repo, file=remote.path)

    def _check_status(self, remote: Remote, response: httpx2.Response) -> None:
        status = response.status_code
        if status in (200, 206, 416):
            return
        if not self._from_hub(response) and status in (400, 401, 403, 404, 410):
            # A redirect's address that has expired: the hub gives a new one.
            raise ConnectionCut(file=remote.path, reason=f"its address expired, status {status}")
        refusal = self._hub.refusal(response, remote.repo, remote.path)
        if isinstance(refusal, RevisionNotFound):
            raise RemoteChanged(repo=remote.repo, file=remote.path)
        if status == 429:
            wait = wait_of(response) or 0.0
            raise RateLimited(endpoint=self._hub.endpoint, wait_s=wait)
        if status in (408, 425) or status >= 500:
            raise HubFailed(endpoint=self._hub.endpoint, status=status)
        raise refusal

    def _from_hub(self, response: httpx2.Response) -> bool:
        hub = httpx2.URL(self._hub.endpoint)
        return (response.url.host, response.url.port) == (hub.host, hub.port)

    async def _check_range(self, remote: Remote, file: _Part, response: httpx2.Response) -> None:
        """Makes sure that the next byte of the answer is the next one of the file."""
        if response.status_code == 206:
            found = _RANGE.fullmatch(response.headers.get("content-range", ""))
            if found is None or int(found[1]) != file.have:
                await file.start_over()
                raise ConnectionCut(file=remote.path, reason="the server sent another part")
            if found[3] != "*" and int(found[3]) != remote.bytes:
                raise WrongLength(file=remote.path, expected=remote.bytes, found=int(found[3]))
            return
        if response.status_code == 416:
            await file.start_over()
            raise WrongLength(file=remote.path, expected=remote.bytes, found="fewer")
        # 200: the server ignores ranges and begins at the beginning.
        length = response.headers.get("content-length", "")
        if length.isdecimal() and int(length) != remote.bytes:
            raise WrongLength(file=remote.path, expected=remote.bytes, found=int(length))
        if file.have:
            await file.start_over()

    async def _receive(
        self,
        remote: Remote,
        file: _Part,
        response: httpx2.Response,
        end: int,
        listener: Listener,
    ) -> None:
        whole = response.status_code == 200
        end = remote.bytes if whole else end
        watch = _SlownessWatch(self._limits, remote.path)
        unlooked = self._limits.space_bytes
        async for piece in response.aiter_raw():
            if file.have + file.buffered + len(piece) > end:
                await file.start_over()
                raise WrongLength(file=remote.path, expected=remote.bytes, found="more")
            await file.add(piece)
            await self._throttle.take(len(piece))
            listener.on_received(len(piece))
            watch.add(len(piece))
            unlooked += len(piece)
            if unlooked >= self._limits.space_bytes:
                unlooked = 0
                self._look_at_space(file.path.parent, remote.bytes - file.have)
        await file.flush()
        if file.have < end:
            raise ConnectionCut(file=remote.path, reason="it ended early")

    def _look_at_space(self, folder: Path, needed: int) -> None:
        free = self._free(folder)
        if free < self._limits.margin:
            raise DiskFull(folder=str(folder), free=free, needed=needed + self._limits.margin)

    async def _wait(self, error: TwofoldError, failures: int, listener: Listener) -> None:
        longest = self._limits.longest_wait_s
        wait = min(self._limits.wait_s * 2 ** max(0, failures - 1), longest)
        wait *= random.uniform(0.75, 1.25)  # so that many clients do not come back at once
        if isinstance(error, RateLimited):
            wait = max(wait, min(float(error.data["wait_s"]), 10 * longest))
        words = f"waiting {wait:.0f} s to try again: {_why(error)}"
        listener.on_doing(Doing("waiting", words))
        await asyncio.sleep(wait)


class _SlownessWatch:
    """Raises Stalled for a connection that drips: a new one is often faster."""

    def __init__(self, limits: Limits, name: str) -> None:
        self._limits = limits
        self._name = name
        self._since = time.monotonic()
        self._count = 0

    def add(self, count: int) -> None:
        self._count += count
        seconds = time.monotonic() - self._since
        if seconds < self._limits.slow_s:
            return
        if self._count < self._limits.slow_rate * seconds:
            raise Stalled(file=self._name, seconds=seconds)
        self._since, self._count = time.monotonic(), 0


class _Part:
    """The file on disk, and the hash of what it holds. Writes and hashes off the event loop."""

    def __init__(self, path: Path, remote: Remote, listener: Listener, write_s: float) -> None:
        self.path = path
        self.have = 0
        self._remote = remote
        self._listener = listener
        self._write_s = write_s
        self._hash = hashlib.sha256()
        self._buffer = bytearray()
        self._flushed = time.monotonic()
        self._file: BinaryIO | None = None

    def __enter__(self) -> _Part:
        try:
            # Written without a buffer: what a killed process had received is there.
            self._file = self.path.open("r+b" if self.path.exists() else "w+b", buffering=0)
        except OSError as error:
            raise self._failed(error) from error
        return self

    def __exit__(self, *_: object) -> None:
        file = self._file
        assert file is not None
        try:
            if self._buffer:  # stopped on the way: this much more is there
                self._write(bytes(self._buffer))
        except TwofoldError:
            pass  # what ended the block says more
        finally:
            file.close()

    @property
    def buffered(self) -> int:
        return len(self._buffer)

    async def take_in(self) -> None:
        """Hashes what an earlier attempt left."""
        size = self._opened.seek(0, os.SEEK_END)
        if size > self._remote.bytes:
            self._opened.truncate(0)
            size = 0
        self._opened.seek(0)
        self._listener.on_bytes(size)
        if size > _READ_PIECE:
            self._listener.on_doing(Doing("checking", "checking what is there"))
        while self.have < size:
            piece = min(_READ_PIECE, size - self.have)
            read = await _in_thread(self._read_and_hash, piece)
            if not read:
                break
            self.have += read
        self._listener.on_doing(None)

    async def start_over(self) -> None:
        self._buffer.clear()
        try:
            self._opened.seek(0)
            self._opened.truncate(0)
        except OSError as error:
            raise self._failed(error) from error
        self._listener.on_bytes(-self.have)
        self.have = 0
        self._hash = hashlib.sha256()

    async def add(self, piece: bytes) -> None:
        self._buffer += piece
        if len(self._buffer) >= _PIECE or time.monotonic() - self._flushed > self._write_s:
            await self.flush()

    async def flush(self) -> None:
        self._flushed = time.monotonic()
        if self._buffer:
            piece = bytes(self._buffer)
            self._buffer.clear()
            await _in_thread(self._write, piece)

    def sync(self) -> None:
        try:
            os.fsync(self._opened.fileno())
        except OSError as error:
            raise self._failed(error) from error

    def digest(self) -> str:
        return self._hash.hexdigest()

    @property
    def _opened(self) -> BinaryIO:
        assert self._file is not None
        return self._file

    def _read_and_hash(self, count: int) -> int:
        try:
            piece = self._opened.read(count)
        except OSError as error:
            raise self._failed(error) from error
        self._hash.update(piece)
        return len(piece)

    def _write(self, piece: bytes) -> None:
        view = memoryview(piece)
        while view:
            try:
                written = self._opened.write(view)
            except OSError as error:
                raise self._failed(error) from error
            self._hash.update(view[:written])
            self.have += written
            self._listener.on_bytes(written)
            view = view[written:]

    def _failed(self, error: OSError) -> TwofoldError:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            needed = self._remote.bytes - self.have
            return DiskFull(folder=str(self.path.parent), free=0, needed=needed)
        return CannotWrite(path=str(self.path), reason=error.strerror or str(error))


async def _in_thread(work: Callable[[_A], _R], argument: _A) -> _R:
    """Off the event loop. Whoever cancels waits for it: the file must not be closed under it."""
    running = asyncio.ensure_future(asyncio.to_thread(work, argument))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


def _why(error: TwofoldError) -> str:
    if isinstance(error, ConnectionCut):
        return str(error.data["reason"])
    if isinstance(error, Stalled):
        return "nothing came"
    if isinstance(error, WrongLength):
        return "it has the wrong length"
    if isinstance(error, RateLimited):
        return "the hub wants fewer requests"
    return f"the hub failed with status {error.data.get('status')}"
