"""Opens backends in this process, by the one copy of the library that is loaded already.

The wheel holds each library three times as plain files. A handle of `libllama.so` as the package
opens it leads to the `libggml.so.0` beside it; opening `libggml.so` by path would load a second
copy with a device registry of its own.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any


def open_backend(library: ctypes.CDLL, path: Path) -> ctypes.c_void_p | None:
    """The backend's registry entry; None if the library refused the file (it logs why)."""
    load: Any = library.ggml_backend_load
    load.argtypes, load.restype = [ctypes.c_char_p], ctypes.c_void_p
    found: int | None = load(str(path).encode())
    return ctypes.c_void_p(found) if found else None


def add_rpc_server(library: ctypes.CDLL, registry: ctypes.c_void_p, endpoint: str) -> bool:
    """Registers the devices of the server at `endpoint` (host:port); False if it has none.

    The library ends the process if the server speaks another protocol.
    """
    address = _function(library, registry, b"ggml_backend_rpc_add_server")
    add = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)(address)
    entry: int | None = add(endpoint.encode())
    if not entry:
        return False
    register: Any = library.ggml_backend_register
    register.argtypes, register.restype = [ctypes.c_void_p], None
    register(entry)
    return True


def serve_rpc(
    library: ctypes.CDLL, registry: ctypes.c_void_p, endpoint: str, device: ctypes.c_void_p
) -> None:
    """Serves `device` at `endpoint` and does not return unless it cannot listen there."""
    address = _function(library, registry, b"ggml_backend_rpc_start_server")
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    kind = ctypes.CFUNCTYPE(
        None, ctypes.c_char_p, ctypes.c_char_p, size, size, ctypes.POINTER(pointer)
    )
    kind(address)(endpoint.encode(), None, 1, 1, (pointer * 1)(device))


def _function(library: ctypes.CDLL, registry: ctypes.c_void_p, name: bytes) -> int:
    find: Any = library.ggml_backend_reg_get_proc_address
    find.argtypes, find.restype = [ctypes.c_void_p, ctypes.c_char_p], ctypes.c_void_p
    found: int | None = find(registry, name)
    if not found:
        raise LookupError(name.decode())
    return found
