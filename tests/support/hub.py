"""A small model hub on loopback, for huggingface-hub's own client: real HTTP, with faults to order.

    with LocalHub() as hub:
        hub.add("user/repo", {"model-Q4_0.gguf": data})
        monkeypatch.setenv("HF_ENDPOINT", hub.url)

It speaks model info, listing and tree (in pages), and resolve, which redirects to a second server
("the content network") with addresses that may expire, as the hub does for large files. Routes
and headers: https://huggingface.co/docs/hub/api, and huggingface_hub's file_download.py.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import random
import re
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qs, quote, unquote, urlsplit

_PAGE = 1000


@dataclass
class Faults:
    """What goes wrong with a file's next answers; each is used up by `times`."""

    times: int = 1
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict[str, str])
    cut_after: int | None = None  # bytes, then the connection is reset
    stall_after: int | None = None  # bytes, then nothing comes for `stall_s`
    stall_s: float = 30.0
    drip_s: float | None = None  # a pause after each 1000 bytes
    flip: int | None = None  # the byte at this place comes wrong
    length: int | None = None  # the answer pretends to have so many bytes
    extra: bytes = b""  # sent after the end
    expired: bool = False  # the content network says so
    ignore_range: bool = False
    wrong_range: bool = False


@dataclass
class RemoteRepo:
    name: str
    files: dict[str, bytes]
    commit: str
    gated: bool = False
    private: bool = False
    licence: str = "apache-2.0"
    tags: tuple[str, ...] = ("gguf",)
    downloads: int = 10
    lfs: bool = True
    xet: bool = True
    gone: set[str] = field(default_factory=set[str])


@dataclass
class Served:
    """One answer of the content network, in the order of their beginnings: from which byte, how
    many have gone out."""

    path: str
    start: int
    sent: int = 0


# How descriptions are sent without end: as they are, packed so that they are small, or slowly.
Flood = Literal["plain", "packed", "slow"]


class LocalHub:
    """`token` opens gated and private repos. `served` tells what the content network sent."""

    token = "hf_test_token"

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._scheme = "https" if tls else "http"
        self.repos: dict[str, RemoteRepo] = {}
        self.faults: dict[str, list[Faults]] = {}
        self.served: list[Served] = []
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.extra_tree: dict[str, list[dict[str, Any]]] = {}
        self.endless: set[str] = set()
        self.flood: Flood | None = None
        self.chance: Callable[[str], Faults | None] = lambda _: None
        self.api_status: list[tuple[int, dict[str, str]]] = []
        self._addresses: dict[str, tuple[str, str, bytes]] = {}
        self._lock = threading.Lock()
        self._servers = [_server(_HubHandler, self, tls), _server(_ContentHandler, self, tls)]

    def __enter__(self) -> LocalHub:
        for server in self._servers:
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._servers[0].server_port}"

    @property
    def content_url(self) -> str:
        return f"{self._scheme}://localhost:{self._servers[1].server_port}"

    def add(self, name: str, files: dict[str, bytes], **facts: Any) -> RemoteRepo:
        commit = hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()
        repo = self.repos[name] = RemoteRepo(name, dict(files), commit, **facts)
        return repo

    def fail(self, path: str, **fault: Any) -> None:
        """The next answers for the file go wrong like this."""
        with self._lock:
            self.faults.setdefault(path, []).append(Faults(**fault))

    def next_fault(self, path: str, *, content: bool) -> Faults | None:
        """Status faults are the hub's own; the others the content network's."""
        with self._lock:
            waiting = self.faults.get(path, [])
            for fault in waiting:
                if (fault.status is None) == content:
                    fault.times -= 1
                    if fault.times <= 0:
                        waiting.remove(fault)
                    return fault
        return self.chance(path) if content else None

    def address(self, path: str, digest: str, data: bytes) -> str:
        """One that works until it expires."""
        key = secrets.token_hex(8)
        with self._lock:
            self._addresses[key] = path, digest, data
        return f"{self.content_url}/content/{key}"

    def at(self, key: str) -> tuple[str, str, bytes] | None:
        return self._addresses.get(key)

    def begin(self, path: str, start: int) -> Served:
        served = Served(path, start)
        with self._lock:
            self.served.append(served)
        return served

    def sent_bytes(self, path: str) -> int:
        return sum(one.sent for one in self.served if one.path == path)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    hub: LocalHub

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are what these tests are about."""


def _server(
    handler: type[BaseHTTPRequestHandler], hub: LocalHub, tls: ssl.SSLContext | None
) -> _Server:
    server = _Server(("127.0.0.1", 0), handler)
    if tls is not None:
        server.socket = tls.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    server.hub = hub
    return server


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]

    @property
    def hub(self) -> LocalHub:
        return self.server.hub

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def do_HEAD(self) -> None:
        self._serve()

    def do_GET(self) -> None:
        self._serve()

    def _serve(self) -> None:
        headers = {key.lower(): value for key, value in self.headers.items()}
        self.hub.requests.append((self.command, self.path, headers))
        self.answer(headers)

    def answer(self, headers: dict[str, str]) -> None:
        raise NotImplementedError

    def send(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_json(self, value: Any, **headers: str) -> None:
        self.send(200, json.dumps(value).encode(), Content_Type="application/json", **headers)


class _HubHandler(_Handler):
    def answer(self, headers: dict[str, str]) -> None:
        parts = urlsplit(self.path)
        path, query = parts.path, parse_qs(parts.query)
        if self.hub.api_status and path.startswith("/api/"):
            status, extra = self.hub.api_status.pop(0)
            self.send(status, b"", **extra)
        elif self.hub.flood and path.startswith("/api/"):
            self._flood(self.hub.flood)
        elif path == "/api/models":
            self._list(query)
        elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/tree/([^/]+)", path):
            self._tree(match[1], query, headers)
        elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/([^/]+))?", path):
            self._info(match[1], match[2], headers)
        elif match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self._resolve(match[1], unquote(match[2]), unquote(match[3]), headers)
        else:
            self.send(404, b"no such route")

    def _flood(self, how: Flood) -> None:
        spaces = b" " * 65_536
        packed = gzip.compress(spaces * 512)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        if how == "packed":
            self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(packed)))
        self.end_headers()
        self.close_connection = True
        if how == "packed":
            self.wfile.write(packed)
            return
        with contextlib.suppress(OSError):
            while self.hub.flood:
                self.wfile.write(spaces if how == "plain" else b" ")
                self.wfile.flush()
                if how == "slow":
                    time.sleep(0.02)

    def _repo(self, name: str, headers: dict[str, str]) -> RemoteRepo | None:
        """The repo if it may be seen; else the refusal has been sent, as the hub words it."""
        repo = self.hub.repos.get(name)
        given = headers.get("authorization")
        if given is not None and given != f"Bearer {self.hub.token}":
            self.send(401, X_Error_Message="Invalid credentials in Authorization header")
            return None
        if repo is None or (repo.private and given is None):
            status = 401 if given is None else 404
            self.send(status, X_Error_Code="RepoNotFound", X_Error_Message="Repository not found")
            return None
        return repo

    def _list(self, query: dict[str, list[str]]) -> None:
        words = query.get("search", [""])[0].lower().split()
        found = [
            repo
            for repo in self.hub.repos.values()
            if all(word in repo.name.lower() for word in words)
            and set(query.get("filter", [])) <= set(repo.tags)
        ]
        found.sort(key=lambda repo: -repo.downloads)
        self.send_json([_info(repo) for repo in found[: int(query.get("limit", ["1000"])[0])]])

    def _info(self, name: str, revision: str | None, headers: dict[str, str]) -> None:
        repo = self._repo(name, headers)
        if repo is None:
            return
        if revision not in (None, "main", repo.commit):
            self.send(404, X_Error_Code="RevisionNotFound")
            return
        self.send_json(_info(repo) | {"siblings": [{"rfilename": path} for path in repo.files]})

    def _tree(self, name: str, query: dict[str, list[str]], headers: dict[str, str]) -> None:
        repo = self._repo(name, headers)
        if repo is None:
            return
        rows = [_row(repo, path, data) for path, data in repo.files.items()]
        rows += self.hub.extra_tree.get(name, [])
        at = int(query.get("cursor", ["0"])[0])
        more = at + _PAGE < len(rows)
        if name in self.hub.endless:
            digest = hashlib.sha256(str(at).encode()).hexdigest()
            rows = [
                {"type": "file", "path": f"f{at + no}.bin", "size": 1, "oid": digest[:40]}
                for no in range(_PAGE)
            ]
            page, more = rows, True
        else:
            page = rows[at : at + _PAGE]
        link = f"<{self.hub.url}{urlsplit(self.path).path}?recursive=true&cursor={at + _PAGE}>"
        self.send_json(page, **({"Link": f'{link}; rel="next"'} if more else {}))

    def _resolve(self, name: str, revision: str, path: str, headers: dict[str, str]) -> None:
        repo = self._repo(name, headers)
        if repo is None:
            return
        given = headers.get("authorization")
        if repo.gated and given is None:
            self.send(401, X_Error_Code="GatedRepo", X_Error_Message="Access is restricted")
            return
        if repo.gated and repo.name.endswith("-refused"):
            self.send(403, X_Error_Code="GatedRepo", X_Error_Message="You are not in the list")
            return
        if revision not in ("main", repo.commit):
            self.send(404, X_Error_Code="RevisionNotFound")
            return
        data = repo.files.get(path)
        if data is None or path in repo.gone:
            self.send(404, X_Error_Code="EntryNotFound")
            return
        fault = self.hub.next_fault(path, content=False)
        if fault is not None and fault.status is not None:
            self.send(fault.status, b"", **fault.headers)
            return
        digest = hashlib.sha256(data).hexdigest()
        told = {
            "X_Repo_Commit": repo.commit,
            "X_Linked_Etag": f'"{digest}"',
            "X_Linked_Size": str(len(data)),
            "ETag": f'"{digest}"',
            "Location": self.hub.address(path, digest, data),
        }
        if repo.xet:
            told["X_Xet_Hash"] = hashlib.blake2b(data, digest_size=32).hexdigest()
            told["Link"] = f'<{self.hub.url}/api/models/{quote(name)}/xet>; rel="xet-auth"'
        self.send(302, b"", **told)


class _ContentHandler(_Handler):
    def answer(self, headers: dict[str, str]) -> None:
        found = self.hub.at(self.path.rpartition("/")[2])
        assert "authorization" not in headers, "the token went to another host"
        if found is None:
            self.send(403, b"<Error>expired</Error>")
            return
        path, digest, data = found
        fault = self.hub.next_fault(path, content=True) or Faults()
        if fault.expired:
            self.send(403, b"<Error>expired</Error>")
            return
        start, end, status = 0, len(data), 200
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", headers.get("range", ""))
        if match and not fault.ignore_range:
            start = int(match[1])
            end = min(len(data), int(match[2]) + 1) if match[2] else len(data)
            status = 206
            if start >= len(data):
                self.send(416, Content_Range=f"bytes */{len(data)}")
                return
        body = bytearray(data[start:end])
        if fault.flip is not None and start <= fault.flip < end:
            body[fault.flip - start] ^= 0xFF
        body += fault.extra
        self.send_response(status)
        claimed = len(body) if fault.length is None else fault.length
        self.send_header("Content-Length", str(claimed))
        # Not the file's hash: content networks have tags of their own.
        self.send_header("ETag", f'"{digest[:32]}"')
        if status == 206:
            first = start + 1 if fault.wrong_range else start
            self.send_header("Content-Range", f"bytes {first}-{end - 1}/{len(data)}")
        self.end_headers()
        self._body(bytes(body), fault, self.hub.begin(path, start))
        if claimed != len(body):
            self.close_connection = True

    def _body(self, body: bytes, fault: Faults, served: Served) -> None:
        sent = 0
        step = 1000 if fault.drip_s else 64 << 10
        ends = (fault.cut_after, fault.stall_after)
        stop = min((end for end in ends if end is not None), default=len(body))
        while sent < min(stop, len(body)):
            piece = body[sent : min(sent + step, stop)]
            self.wfile.write(piece)
            sent += len(piece)
            served.sent = sent
            if fault.drip_s:
                time.sleep(fault.drip_s)
        if fault.cut_after is not None and sent < len(body):
            self._reset()
        elif fault.stall_after is not None and sent < len(body):
            self._stall(fault.stall_s)

    def _reset(self) -> None:
        """As a network does: no farewell."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.close_connection = True
        self.connection.close()

    def _stall(self, seconds: float) -> None:
        """Until the client has had enough."""
        self.connection.settimeout(seconds)
        with contextlib.suppress(OSError):
            self.connection.recv(1)
        self.close_connection = True


def _info(repo: RemoteRepo) -> dict[str, Any]:
    return {
        "_id": "1",
        "id": repo.name,
        "modelId": repo.name,
        "sha": repo.commit,
        "private": repo.private,
        "gated": "auto" if repo.gated else False,
        "downloads": repo.downloads,
        "likes": 3,
        "lastModified": "2026-10-01T12:00:00.000Z",
        "tags": [*repo.tags, f"license:{repo.licence}"],
        "cardData": {"license": repo.licence},
        "pipeline_tag": "text-generation",
    }


def _row(repo: RemoteRepo, path: str, data: bytes) -> dict[str, Any]:
    digest = hashlib.sha256(data).hexdigest()
    row: dict[str, Any] = {
        "type": "file",
        "path": path,
        "size": len(data),
        "oid": hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest(),
    }
    if repo.lfs:
        row["lfs"] = {"oid": digest, "size": len(data), "pointerSize": 134}
    if repo.xet:
        row["xetHash"] = hashlib.blake2b(data, digest_size=32).hexdigest()
    return row


def random_faults(seed: int, share: float = 0.5) -> Callable[[str], Faults | None]:
    """Cuts, stalls, expired addresses and ignored ranges, in a share of all answers."""
    chance = random.Random(seed)
    lock = threading.Lock()

    def choose(path: str) -> Faults | None:
        del path
        with lock:
            if chance.random() > share:
                return None
            kind = chance.randrange(4)
            place = chance.randrange(1, 200_000)
        if kind == 0:
            return Faults(cut_after=place)
        if kind == 1:
            return Faults(expired=True)
        if kind == 2:
            return Faults(ignore_range=True)
        return Faults(drip_s=0.001, cut_after=place)

    return choose
