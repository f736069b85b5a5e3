"""A device other than the CPU for tests, from an add-on library: RPC on loopback, or Vulkan.

RPC is the CPU of another process behind the library's device interface: memory that is not this
process's, reached by messages alone. Vulkan is whatever driver there is, Mesa's software one too.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from engine import paths
from engine.backends.opening import add_rpc_server, open_backend, serve_rpc
from engine.native import library_folder, native
from tests.support.sessions import Pair, attach, open_session

ARCHS = ("llama", "qwen3", "gemma3", "qwen35")
ALL_LAYERS = -1
_servers: list[subprocess.Popen[bytes]] = []


def on_device(
    pair: Pair, device: str, plan: Any = None, *, layers: int = ALL_LAYERS, micro_batch: int = 64
) -> Any:
    """A session of the pair's decoder there, with its prefiller by `plan` if there is one."""
    session = open_session(
        pair.decoder, micro_batch=micro_batch, gpu_layers=layers, devices=[device]
    )
    if plan is not None:
        attach(session, pair, plan)
    return session


def backend_file(kind: str) -> Path:
    """The newest built one in the cache; `./twofold test --device` builds it."""
    found = sorted(
        paths.cache_folder().glob(f"backends/{kind}/*/libggml-{kind}.so"),
        key=lambda file: file.stat().st_mtime,
    )
    assert found, f"no {kind} backend is built: ./twofold backend build {kind}"
    return found[-1]


def register(kind: str) -> str:
    """Opens the backend; the name of its device, which stays registered in this process."""
    os.environ.setdefault("GGML_VK_VISIBLE_DEVICES", "0")  # which lets a software driver pass
    library = _library()
    registry = open_backend(library, backend_file(kind))
    assert registry, f"the library refused the {kind} backend"
    if kind == "rpc":
        assert add_rpc_server(library, registry, _rpc_server())
    return next(found.name for found in native().list_devices() if found.kind != "cpu")


def host_buffer_type(device: str) -> str | None:
    """The name of the kind of host memory that the device copies from fastest, if it has one."""
    library = _library()
    find: Any = library.ggml_backend_dev_by_name
    find.argtypes, find.restype = [ctypes.c_char_p], ctypes.c_void_p
    offered: Any = library.ggml_backend_dev_host_buffer_type
    offered.argtypes, offered.restype = [ctypes.c_void_p], ctypes.c_void_p
    name: Any = library.ggml_backend_buft_name
    name.argtypes, name.restype = [ctypes.c_void_p], ctypes.c_char_p
    found = offered(find(device.encode()))
    return name(found).decode() if found else None


def serve(port: int) -> None:
    """Serves this process's CPU as an RPC device until the standard input ends."""
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    library = _library()
    registry = open_backend(library, backend_file("rpc"))
    assert registry
    find: Any = library.ggml_backend_dev_by_type
    find.restype = ctypes.c_void_p
    serve_rpc(library, registry, f"127.0.0.1:{port}", ctypes.c_void_p(find(0)))  # 0: CPU


def _library() -> ctypes.CDLL:
    native()
    return ctypes.CDLL(str(library_folder() / "libllama.so"))


def _rpc_server() -> str:
    """The address of a server that ends with this process: sessions may outlive any fixture, and
    the library ends the process when they lose their server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = f"from tests.support.devices import serve; serve({port})"
    server = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while True:
        assert server.poll() is None and time.monotonic() < deadline, "no RPC server"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            _servers.append(server)
            return f"127.0.0.1:{port}"
        time.sleep(0.05)
