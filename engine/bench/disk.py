"""How fast a file's weights come off the disk, past the page cache."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from engine.native import native

DEFAULT_BLOCK_BYTES = 1 << 20
DEFAULT_IN_FLIGHT = 4


class DiskRow(BaseModel):
    """One measurement; `gbps` is in 10^9 bytes a second.

    `direct` is false where the file system refuses reads past the page cache; the file was then
    dropped from the cache before each round.
    """

    model_config = ConfigDict(frozen=True)

    block_bytes: int
    gbps: float
    direct: bool
    in_flight: int


def measure_disk(
    path: Path,
    block_bytes: int = DEFAULT_BLOCK_BYTES,
    in_flight: int = DEFAULT_IN_FLIGHT,
    seconds: float = 2.0,
    *,
    start: int = 0,
) -> DiskRow:
    """Reads `path` from byte `start` on, and over again from its beginning, for about `seconds`.

    `block_bytes` is the size of one request, a multiple of 4096; `in_flight` is how many are on
    the disk at once. Raises NativeError with the codes `disk.open_failed`, `disk.file_empty`,
    `disk.read_failed` and `disk.short_read`; ValueError for sizes that make no sense.
    """
    if block_bytes <= 0 or block_bytes % 4096 or in_flight <= 0 or seconds <= 0:
        raise ValueError("block_bytes must be a multiple of 4096; in_flight and seconds positive")
    rate = native().measure_read_rate(path, block_bytes, in_flight, seconds, start)
    return DiskRow(
        block_bytes=block_bytes,
        gbps=rate.bytes / rate.seconds / 1e9,
        direct=rate.direct,
        in_flight=in_flight,
    )
