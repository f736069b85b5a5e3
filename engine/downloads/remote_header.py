"""Reads a GGUF's header from the hub, without the file: ranged requests, as far as needed."""

from __future__ import annotations

import io
from pathlib import Path

import httpx2

from engine.api.models import Variant, VariantFile
from engine.downloads import network
from engine.downloads.errors import HubStrange
from engine.downloads.hub import Hub
from engine.errors import TwofoldError
from engine.gguf.reader import GgufFile, read_gguf_from
from engine.gguf.splits import GgufModel

_FIRST = 1 << 20
_MOST_PARTS = 80


def remote_model(hub: Hub, repo: str, commit: str, variant: Variant) -> GgufModel:
    """The headers of all parts. Raises GgufError for a file that is not sound, what the hub
    refuses with, HubStrange for a variant of very many parts."""
    if len(variant.files) > _MOST_PARTS:
        raise HubStrange(endpoint=hub.endpoint, reason=f"{len(variant.files)} parts")
    with httpx2.Client(
        follow_redirects=True, timeout=network.timeouts(), verify=network.certificates()
    ) as client:
        return GgufModel(tuple(_header(client, hub, repo, commit, file) for file in variant.files))


def _header(client: httpx2.Client, hub: Hub, repo: str, commit: str, file: VariantFile) -> GgufFile:
    hub.require_online()
    content = io.BufferedReader(_RemoteFile(client, hub, repo, commit, file), buffer_size=_FIRST)
    return read_gguf_from(content, Path(file.path.rpartition("/")[2]))


class _RemoteFile(io.RawIOBase):
    """A file on the hub; each read asks for twice as much as the one before."""

    def __init__(
        self, client: httpx2.Client, hub: Hub, repo: str, commit: str, file: VariantFile
    ) -> None:
        super().__init__()
        self._client = client
        self._hub = hub
        self._repo = repo
        self._file = file
        self._url = hub.file_url(repo, file.path, commit)
        self._at = 0
        self._ahead = b""
        self._ahead_at = 0
        self._next = _FIRST

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.bytes}[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        if self._at >= self._file.bytes:
            return 0
        inside = self._at - self._ahead_at
        if not 0 <= inside < len(self._ahead):
            self._fetch()
            inside = 0
        piece = self._ahead[inside : inside + len(buffer)]
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def _fetch(self) -> None:
        end = min(self._file.bytes, self._at + self._next)
        self._next *= 2
        headers = {**self._hub.headers(), "range": f"bytes={self._at}-{end - 1}"}
        try:
            with self._client.stream("GET", self._url, headers=headers) as response:
                if response.status_code != 206 and not (
                    response.status_code == 200 and not self._at
                ):
                    raise self._refusal(response)
                self._ahead = _limited(response, end - self._at)
        except httpx2.HTTPError as error:
            raise network.network_error(error, self._hub.endpoint) from error
        if not self._ahead:
            raise HubStrange(endpoint=self._hub.endpoint, reason="an empty answer")
        self._ahead_at = self._at

    def _refusal(self, response: httpx2.Response) -> TwofoldError:
        if response.is_error:
            return self._hub.refusal(response, self._repo, self._file.path)
        return HubStrange(endpoint=self._hub.endpoint, reason="it does not send parts of files")


def _limited(response: httpx2.Response, count: int) -> bytes:
    """No more than was asked for, whatever comes."""
    taken = bytearray()
    for piece in response.iter_raw():
        taken += piece
        if len(taken) >= count:
            break
    return bytes(taken[:count])
