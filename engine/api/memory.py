"""What a model takes, by kind of buffer, before anything is allocated."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from engine.api.plan import KvType


class BufferMemory(BaseModel):
    """Bytes in one kind of buffer, named as the library names it; `host`: the CPU's memory."""

    model_config = ConfigDict(frozen=True)

    buffer: str
    host: bool
    weights: int
    context: int
    compute: int

    @property
    def total(self) -> int:
        return self.weights + self.context + self.compute


class PrefillerMemory(BaseModel):
    """Bytes of a prefiller: `resident` all in memory, `slot` for one block while streaming."""

    model_config = ConfigDict(frozen=True)

    resident: int
    slot: int


class MemoryAccount(BaseModel):
    """What a load with these settings allocates; `context` and `micro_batch` in tokens."""

    model_config = ConfigDict(frozen=True)

    model: Path
    context: int
    kv_type: KvType
    micro_batch: int
    gpu_layers: int
    buffers: tuple[BufferMemory, ...]
    prefiller: PrefillerMemory | None = None
