"""How a model is loaded: context, micro-batch, threads, slots; with defaults that suit most."""

from __future__ import annotations

import os

import psutil
from pydantic import BaseModel, ConfigDict, Field

from engine.api.turn import DEFAULT_POLICY, Policy

# Beyond this a context costs more memory than most conversations need; ask for more to get it.
DEFAULT_CONTEXT = 16_384


def default_threads() -> int:
    """The physical cores that this process may use."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    physical = psutil.cpu_count(logical=False) or os.cpu_count() or 1
    return max(1, min(physical, usable or physical))


def default_compute_budget() -> int:
    """Bytes that compute buffers may take: a quarter of the memory that is free now."""
    return max(256 << 20, psutil.virtual_memory().available // 4)


class LoadSettings(BaseModel):
    """`context` in tokens (None: the model's, up to DEFAULT_CONTEXT). `micro_batch` in tokens
    (None: as planned, within `compute_budget` bytes). `slots` are buffers of one block each;
    `carve_out` puts them in idle decoder weights. `in_flight` disk requests of `request_bytes`.
    `policy`: what the path "auto" goes by. `gpu_layers`: the model's last layers that a GPU holds
    (None: as many as its free memory does). `host_blocks`: of the prefiller's blocks that a GPU
    computes and that do not stay in its memory, those that stay in the host's, not on the disk.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    context: int | None = Field(default=None, ge=64)
    micro_batch: int | None = Field(default=None, ge=32)
    compute_budget: int = Field(default_factory=default_compute_budget, ge=1)
    threads: int = Field(default_factory=default_threads, ge=1, le=1024)
    slots: int = Field(default=2, ge=1, le=64)
    carve_out: bool = True
    in_flight: int = Field(default=4, ge=1, le=64)
    request_bytes: int = Field(default=1 << 20, ge=4096, le=64 << 20, multiple_of=4096)
    policy: Policy = DEFAULT_POLICY
    gpu_layers: int | None = Field(default=None, ge=0)
    host_blocks: int = Field(default=0, ge=0)
