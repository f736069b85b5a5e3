"""Serves this process's CPU as an RPC device, with so many MiB of memory if they are given:
`python -m tests.support.rpc_server FILE PORT [MIB]`.

Ends with its standard input, so that it never outlives the test that started it.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys
import threading
from pathlib import Path

import psutil

from engine.backends.opening import open_backend, serve_rpc
from engine.native import library_folder, native


def main(file: Path, port: int, memory_mib: int | None = None) -> None:
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    native()
    library = ctypes.CDLL(str(library_folder() / "libllama.so"))
    registry = open_backend(library, file)
    assert registry is not None
    library.ggml_backend_dev_by_type.restype = ctypes.c_void_p
    device = ctypes.c_void_p(library.ggml_backend_dev_by_type(0))
    if memory_mib is not None:
        limit = psutil.Process().memory_info().vms + (memory_mib << 20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    serve_rpc(library, registry, f"127.0.0.1:{port}", device)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
