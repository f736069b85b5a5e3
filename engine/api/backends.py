"""GPU backends as clients see them: what is installed, whether it is used, and why not."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict


class CheckedDevice(BaseModel):
    """A device that the self-check ran on; memory in bytes; `error` is the worst of its `kernels`,
    relative to plain arithmetic."""

    model_config = ConfigDict(frozen=True)

    name: str
    description: str
    memory_free: int
    memory_total: int
    kernels: int
    error: float


class BackendInfo(BaseModel):
    """`state`: `ready` was checked and is used; `unfit` was checked and is not, for `reason`;
    `unchecked` is checked at the next start; `disabled` is not wanted by the user. `reason` is
    `crashed`, `timeout`, `wrong_values`, `no_driver`, `no_device` or `not_loaded`. `carried`: a
    part of the program, which is not removed."""

    model_config = ConfigDict(frozen=True)

    name: str
    path: Path
    state: Literal["ready", "unfit", "unchecked", "disabled"]
    enabled: bool
    carried: bool = False
    reason: str | None = None
    detail: str = ""
    devices: tuple[CheckedDevice, ...] = ()


class Backends(BaseModel):
    """All that are installed."""

    model_config = ConfigDict(frozen=True)

    backends: tuple[BackendInfo, ...]


class BackendChange(BaseModel):
    """Whether a backend is wanted; takes effect when the next model is loaded."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    enabled: bool


class BackendName(BaseModel):
    """An installed backend."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str


class BackendFile(BaseModel):
    """A file on the engine's machine that `backend build` made."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str
