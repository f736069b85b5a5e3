"""From how many tokens on tiles of ours compute a prompt's attention faster than the library does.

Measured once for each shape of heads on each machine, in some tenths of a second, and kept.
"""

from __future__ import annotations

from typing import Any

from engine.kernels.measured import NEVER, known_or_measured, narrowest
from engine.native import native

FILE_NAME = "attention.json"
_CACHED = 2048  # tokens that the measured ones attend to


def attention_tokens(heads: Any, threads: int) -> int:
    """From how many tokens on attention of these heads is faster in tiles.

    `heads`: a session's `attention_heads`. Measures what is not yet known. NEVER where the library
    is faster, does not fuse the attention, or TWOFOLD_KERNEL leaves everything to it.
    """
    kernel: str = native().chosen_kernel()
    if heads is None or kernel == "library":
        return NEVER

    def measure(_name: str, kernel: str, threads: int) -> int:
        return narrowest(lambda tokens: attention(heads, tokens, threads), kernel)

    name = f"{heads.heads}/{heads.key_heads} {heads.key_size}/{heads.value_size} {heads.type}"
    return known_or_measured(FILE_NAME, [name], kernel, threads, measure)[name]


def attention(heads: Any, tokens: int, threads: int) -> Any:
    """The attention of a prompt's last `tokens` tokens."""
    return native().AttentionBench(
        tokens,
        _CACHED,
        heads.heads,
        heads.key_heads,
        heads.key_size,
        heads.value_size,
        heads.type,
        threads,
    )
