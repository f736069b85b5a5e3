"""Measures how fast a device multiplies with weights of a type: what prefill and decode rest on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from engine.gguf.types import GgmlType
from engine.native import native

# A block's linear in small: large enough for every kernel's tiles, 0.1 s on a slow core.
_SIDE = 2048
_TOKENS = 256
_SECONDS = 0.15
# Together more than any cache holds, so that memory is what is measured.
_STREAM_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class ProductRates:
    """By ggml type: `tflops` for wide batches, in 10^12 operations a second, two for each weight
    and token; `decode_gbps`, the weights' 10^9 bytes a second for a single token."""

    tflops: dict[str, float]
    decode_gbps: dict[str, float]


def measure_products(
    types: Iterable[str], *, device: int = 0, threads: int = 1, decode: bool = False
) -> ProductRates:
    """Takes about a third of a second for each type, twice that with `decode`.

    `device` is an index in the library's registry; types that it cannot multiply are left out. A
    kernel that is broken ends the process: ask in one that may die, or where the same kernel is
    going to run anyway.
    """
    tflops: dict[str, float] = {}
    gbps: dict[str, float] = {}
    for name in dict.fromkeys(types):
        type_ = GgmlType[name]
        wide = native().measure_product(
            device, int(type_), _SIDE, _SIDE, _TOKENS, threads=threads, seconds=_SECONDS
        )
        if not wide.supported:
            continue
        tflops[name] = 2e-12 * _SIDE * _SIDE * _TOKENS / wide.seconds
        if decode:
            count = max(1, _STREAM_BYTES // wide.weight_bytes)
            single = native().measure_product(
                device, int(type_), _SIDE, _SIDE, 1, count, threads, _SECONDS
            )
            gbps[name] = single.weight_bytes / single.seconds / 1e9
    return ProductRates(tflops, gbps)
