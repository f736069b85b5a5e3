"""Runs a backend's products and a small graph, and compares them with plain arithmetic and the CPU.

In a process of its own, which a driver may end or hang: `python -m engine.backends.check_child
NAME FILE`. Says on stderr what it is at, and one JSON object on stdout.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from engine.backends.opening import add_rpc_server, open_backend, serve_rpc
from engine.doctor.kernels import TOLERANCE, TYPES, Floats, Library, check
from engine.native import library_folder

_WIDTH, _TOKENS = 256, 8
_CONNECT_S = 60.0
# Many tokens are prefill, one is decode; each is a program of its own that the driver compiles.
_WIDTHS = (64, 1)
_FIRST = ("NVFP4",)
_BUDGET_S = 20.0
# A driver that takes so long for one is a software driver, which takes minutes for others.
_SLOW_S = 3.0


class _InitParams(ctypes.Structure):
    _fields_ = (
        ("mem_size", ctypes.c_size_t),
        ("mem_buffer", ctypes.c_void_p),
        ("no_alloc", ctypes.c_bool),
    )


def main(name: str, path: Path) -> None:
    # What a driver prints, and when, must not get among the answer.
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    folder = library_folder()
    library = Library(folder)
    handle = ctypes.CDLL(str(folder / "libllama.so"))
    before = _devices(library)
    print(f"opening: {path}", file=sys.stderr, flush=True)
    registry = open_backend(handle, path)
    if registry is None:
        sys.exit(3)
    if name == "rpc":
        _serve_here(handle, registry, library.device)
    found: list[dict[str, Any]] = []
    wrong: list[str] = []
    for device in _devices(library)[len(before) :]:
        facts, faults = _checked(library, device)
        found.append(facts)
        wrong += faults
    print(json.dumps({"devices": found, "wrong": wrong}), file=answer, flush=True)
    os._exit(0)  # the served device's thread is still in the library, whose end would meet it


def _devices(library: Library) -> list[ctypes.c_void_p]:
    count: int = library.call("ggml_backend_dev_count", returns=ctypes.c_size_t)
    return [
        library.pointer("ggml_backend_dev_get", ctypes.c_size_t(index)) for index in range(count)
    ]


def _checked(library: Library, device: ctypes.c_void_p) -> tuple[dict[str, Any], list[str]]:
    """A device's facts, and the names of what it computes wrongly."""
    processor = library.device, library.backend
    name = library.text("ggml_backend_dev_name", device)
    print(f"device: {name}", file=sys.stderr, flush=True)
    library.device = device
    library.backend = library.pointer("ggml_backend_dev_init", device, None)
    if not library.backend.value:
        return _facts(library, device, {}), [f"{name}: not started"]
    print("graph: device", file=sys.stderr, flush=True)
    there = _graph(library)
    kernels = _kernels(library)
    library.call("ggml_backend_free", library.backend)
    library.device, library.backend = processor
    here = _graph(library)
    distance = float(np.linalg.norm(there - here) / np.linalg.norm(here))
    kernels["graph"] = distance if np.isfinite(distance) else float(np.finfo("f4").max)
    faults = [f"{name}: {what}" for what, error in kernels.items() if not error <= TOLERANCE]
    return _facts(library, device, kernels), faults


def _kernels(library: Library) -> dict[str, float]:
    """The worst error of each type's products; a driver that compiles for long is not asked for
    all of them."""
    started = time.monotonic()
    errors: dict[str, float] = {}
    for name in sorted(TYPES, key=lambda name: name not in _FIRST):
        for width in _WIDTHS:
            began = time.monotonic()
            for kernel in check(library, {name: TYPES[name]}, (width,)):
                errors[name] = max(errors.get(name, 0.0), float(kernel["error"]))
            now = time.monotonic()
            if now - began > _SLOW_S or now - started > _BUDGET_S:
                return errors
    return errors


def _facts(library: Library, device: ctypes.c_void_p, kernels: dict[str, float]) -> dict[str, Any]:
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    library.call("ggml_backend_dev_memory", device, ctypes.byref(free), ctypes.byref(total))
    return {
        "name": library.text("ggml_backend_dev_name", device),
        "description": library.text("ggml_backend_dev_description", device),
        "memory_free": free.value,
        "memory_total": total.value,
        "kernels": len(kernels),
        "error": max(kernels.values(), default=0.0),
    }


def _graph(library: Library) -> Floats:
    """A normalised, gated product as a block has it: rms_norm, mul_mat, silu, mul, soft_max."""
    random = np.random.default_rng(2)
    weights = random.standard_normal((_WIDTH, _WIDTH), np.float32) / np.float32(_WIDTH**0.5)
    tokens = random.standard_normal((_TOKENS, _WIDTH), np.float32)
    context = library.pointer("ggml_init", _InitParams(1 << 20, None, True))
    size = ctypes.c_int64

    def tensor(rows: int) -> ctypes.c_void_p:
        return library.pointer("ggml_new_tensor_2d", context, 0, size(_WIDTH), size(rows))

    weight, given = tensor(_WIDTH), tensor(_TOKENS)
    normal = library.pointer("ggml_rms_norm", context, given, ctypes.c_float(1e-6))
    product = library.pointer("ggml_mul_mat", context, weight, normal)
    gate = library.pointer("ggml_silu", context, product)
    gated = library.pointer("ggml_mul", context, gate, normal)
    shares = library.pointer("ggml_soft_max", context, gated)
    graph = library.pointer("ggml_new_graph", context)
    library.call("ggml_build_forward_expand", graph, shares)
    buffer = library.pointer("ggml_backend_alloc_ctx_tensors", context, library.backend)
    result = np.full((_TOKENS, _WIDTH), np.nan, np.float32)
    start = ctypes.c_size_t(0)
    for target, values in ((weight, weights), (given, tokens)):
        pointer, length = ctypes.c_void_p(values.ctypes.data), ctypes.c_size_t(values.nbytes)
        library.call("ggml_backend_tensor_set", target, pointer, start, length)
    if (
        library.call("ggml_backend_graph_compute", library.backend, graph, returns=ctypes.c_int)
        == 0
    ):
        pointer, length = ctypes.c_void_p(result.ctypes.data), ctypes.c_size_t(result.nbytes)
        library.call("ggml_backend_tensor_get", shares, pointer, start, length)
    library.call("ggml_backend_buffer_free", buffer)
    library.call("ggml_free", context)
    return result


def _serve_here(handle: ctypes.CDLL, registry: ctypes.c_void_p, device: ctypes.c_void_p) -> None:
    """RPC has no device of its own: this process serves its CPU to itself, on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    endpoint = f"127.0.0.1:{port}"
    threading.Thread(
        target=serve_rpc, args=(handle, registry, endpoint, device), daemon=True
    ).start()
    deadline = time.monotonic() + _CONNECT_S
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            break
        except OSError:
            time.sleep(0.05)
    add_rpc_server(handle, registry, endpoint)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
