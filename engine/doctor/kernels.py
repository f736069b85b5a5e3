"""Runs every matrix kernel of the installed library once and compares it with plain arithmetic.

A wrongly compiled kernel ends the process that calls it, so only `self_check` starts this, in a
process of its own, as a script: it must run before the package itself is installed and therefore
imports nothing of it. Progress goes to stderr as
`kernel: TYPE BUFFER TOKENS`, among what the library says; one JSON object to stdout.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

# ggml's numbers for the types that a decoder or prefiller may hold.
TYPES = {
    "F16": 1, "BF16": 30, "Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q5_1": 7, "Q8_0": 8, "Q2_K": 10,
    "Q3_K": 11, "Q4_K": 12, "Q5_K": 13, "Q6_K": 14, "IQ2_XXS": 16, "IQ3_XXS": 18, "IQ4_NL": 20,
    "IQ4_XS": 23, "NVFP4": 40, "Q1_0": 41, "Q2_0": 42,
}  # fmt: skip
DEVICE_TYPES = ("CPU", "GPU", "IGPU", "ACCEL", "META")

# Long enough for the largest quantisation block and for several vector registers.
COLUMNS, ROWS = 512, 64
# One token is decode; the others are prefill, with and without a ragged last tile.
WIDTHS = (1, 5, 64)
# Activations are rounded to 8 bits by most kernels, which costs about 1%.
TOLERANCE = 0.05

Floats = npt.NDArray[np.float32]


class _InitParams(ctypes.Structure):
    _fields_ = (
        ("mem_size", ctypes.c_size_t),
        ("mem_buffer", ctypes.c_void_p),
        ("no_alloc", ctypes.c_bool),
    )


class _TypeTraits(ctypes.Structure):
    _fields_ = (
        ("type_name", ctypes.c_char_p),
        ("blck_size", ctypes.c_int64),
        ("blck_size_interleave", ctypes.c_int64),
        ("type_size", ctypes.c_size_t),
        ("is_quantized", ctypes.c_bool),
        ("to_float", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)),
    )


class Library:
    """The few functions of ggml's public API that the check needs, with their C types."""

    def __init__(self, folder: Path) -> None:
        # The path that llama_cpp itself opens; its siblings follow by name, once.
        ctypes.CDLL(str(folder / "libllama.so"), mode=ctypes.RTLD_GLOBAL)
        self._symbols = ctypes.CDLL(None)
        self.device = self.pointer("ggml_backend_dev_by_type", 0)
        if not self.device:  # a build whose CPU backend is several variants, opened at run time
            self._load_variant(folder)
            self.device = self.pointer("ggml_backend_dev_by_type", 0)
        self.backend = self.pointer("ggml_backend_dev_init", self.device, None)
        if address := self.registered("ggml_backend_set_n_threads"):
            set_threads = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int)(address)
            set_threads(self.backend, min(2, os.cpu_count() or 1))

    def _load_variant(self, folder: Path) -> None:
        forced = os.environ.get("TWOFOLD_CPU_VARIANT")
        if forced:
            file = folder / f"libggml-cpu-{forced}.so"
            self.pointer("ggml_backend_load", os.fsencode(file))
        else:
            self.call("ggml_backend_load_all_from_path", os.fsencode(folder))

    def call(self, name: str, *args: Any, returns: Any = None) -> Any:
        function = self._symbols[name]  # a fresh object, so that types do not leak between calls
        function.restype = returns
        return function(*args)

    def pointer(self, name: str, *args: Any) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.call(name, *args, returns=ctypes.c_void_p))

    def registered(self, name: str) -> int | None:
        """The address of a function that the CPU backend offers by name."""
        registry = self.pointer("ggml_backend_dev_backend_reg", self.device)
        return self.pointer("ggml_backend_reg_get_proc_address", registry, name.encode()).value

    def text(self, name: str, *args: Any) -> str:
        found: bytes = self.call(name, *args, returns=ctypes.c_char_p)
        return found.decode()

    def devices(self) -> Iterator[dict[str, Any]]:
        for index in range(self.call("ggml_backend_dev_count", returns=ctypes.c_size_t)):
            device = self.pointer("ggml_backend_dev_get", ctypes.c_size_t(index))
            free, total = ctypes.c_size_t(), ctypes.c_size_t()
            self.call("ggml_backend_dev_memory", device, ctypes.byref(free), ctypes.byref(total))
            yield {
                "name": self.text("ggml_backend_dev_name", device),
                "description": self.text("ggml_backend_dev_description", device),
                "type": DEVICE_TYPES[
                    self.call("ggml_backend_dev_type", device, returns=ctypes.c_int)
                ],
                "memory_free": free.value,
                "memory_total": total.value,
            }

    def buffer_types(self) -> Iterator[tuple[str, ctypes.c_void_p]]:
        """The plain buffer type, then those that rearrange weights for special instructions."""
        found = [self.pointer("ggml_backend_dev_buffer_type", self.device)]
        address = self.registered("ggml_backend_dev_get_extra_bufts")
        if address:
            prototype = ctypes.CFUNCTYPE(ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p)
            extra = prototype(address)(self.device)
            index = 0
            while extra and extra[index]:
                found.append(ctypes.c_void_p(extra[index]))
                index += 1
        for buffer_type in found:
            yield self.text("ggml_backend_buft_name", buffer_type), buffer_type


def quantise(library: Library, number: int, weights: Floats) -> tuple[bytes, Floats]:
    """`weights` (rows x columns) as the type's bytes, and as the numbers those bytes stand for."""
    rows, columns = weights.shape
    row_bytes: int = library.call(
        "ggml_row_size", number, ctypes.c_int64(columns), returns=ctypes.c_size_t
    )
    encoded = ctypes.create_string_buffer(row_bytes * rows)
    importance = np.ones(columns, np.float32)  # some types refuse to be made without one
    library.call(
        "ggml_quantize_chunk",
        number, ctypes.c_void_p(weights.ctypes.data), encoded, ctypes.c_int64(0),
        ctypes.c_int64(rows), ctypes.c_int64(columns), ctypes.c_void_p(importance.ctypes.data),
        returns=ctypes.c_size_t,
    )  # fmt: skip
    traits = library.call("ggml_get_type_traits", number, returns=ctypes.POINTER(_TypeTraits))
    decoded = np.empty((rows, columns), np.float32)
    traits.contents.to_float(ctypes.addressof(encoded), decoded.ctypes.data, rows * columns)
    return encoded.raw, decoded


def multiply(
    library: Library, number: int, encoded: bytes, tokens: Floats, buffer_type: ctypes.c_void_p
) -> Floats | None:
    """`tokens` (width x columns) times the weights, computed by the library; None if it has no
    kernel for the type in that kind of buffer."""
    width, columns = tokens.shape
    size = ctypes.c_int64
    weight_context, context = (
        library.pointer("ggml_init", _InitParams(1 << 20, None, True)) for _ in range(2)
    )
    weights = library.pointer(
        "ggml_new_tensor_2d", weight_context, number, size(columns), size(ROWS)
    )
    weight_buffer = library.pointer(
        "ggml_backend_alloc_ctx_tensors_from_buft", weight_context, buffer_type
    )
    given = library.pointer("ggml_new_tensor_2d", context, 0, size(columns), size(width))
    product = library.pointer("ggml_mul_mat", context, weights, given)
    buffer = library.pointer("ggml_backend_alloc_ctx_tensors", context, library.backend)
    try:
        if not library.call(
            "ggml_backend_dev_supports_op", library.device, product, returns=ctypes.c_bool
        ):
            return None
        byte_count, start = ctypes.c_size_t, ctypes.c_size_t(0)
        library.call("ggml_backend_tensor_set", weights, encoded, start, byte_count(len(encoded)))
        library.call(
            "ggml_backend_tensor_set",
            given, ctypes.c_void_p(tokens.ctypes.data), start, byte_count(tokens.nbytes),
        )  # fmt: skip
        graph = library.pointer("ggml_new_graph", context)
        library.call("ggml_build_forward_expand", graph, product)
        status: int = library.call(
            "ggml_backend_graph_compute", library.backend, graph, returns=ctypes.c_int
        )
        result = np.full((width, ROWS), np.nan, np.float32)
        if status == 0:
            library.call(
                "ggml_backend_tensor_get",
                product, ctypes.c_void_p(result.ctypes.data), start, byte_count(result.nbytes),
            )  # fmt: skip
        return result
    finally:
        for held in (buffer, weight_buffer):
            library.call("ggml_backend_buffer_free", held)
        for held in (context, weight_context):
            library.call("ggml_free", held)


def check(
    library: Library, types: Mapping[str, int] = TYPES, widths: Sequence[int] = WIDTHS
) -> Iterator[dict[str, Any]]:
    """One entry for each type and kind of buffer that has a kernel, with its worst error."""
    random = np.random.default_rng(1)
    weights = random.standard_normal((ROWS, COLUMNS), np.float32)
    tokens = random.standard_normal((max(widths), COLUMNS), np.float32)
    buffer_types = list(library.buffer_types())
    for name, number in types.items():
        encoded, decoded = quantise(library, number, weights)
        for buffer_name, buffer_type in buffer_types:
            errors: list[float] = []
            for width in widths:
                print(f"kernel: {name} {buffer_name} {width}", file=sys.stderr, flush=True)
                given = tokens[:width]
                found = multiply(library, number, encoded, given, buffer_type)
                if found is None:
                    continue
                right = given @ decoded.T
                errors.append(float(np.linalg.norm(found - right) / np.linalg.norm(right)))
            if errors:
                worst = max(errors) if np.isfinite(errors).all() else float(np.finfo("f4").max)
                yield {"type": name, "buffer": buffer_name, "error": worst}


def main() -> None:
    spec = importlib.util.find_spec("llama_cpp")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("llama_cpp is not installed")
    library = Library(Path(spec.submodule_search_locations[0]) / "lib")
    kernels = list(check(library))
    report = {
        "commit": library.text("ggml_commit"),
        "system_info": library.text("llama_print_system_info"),
        "devices": list(library.devices()),
        "kernels": kernels,
        "wrong": [kernel for kernel in kernels if kernel["error"] > TOLERANCE],
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
