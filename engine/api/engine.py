"""The engine's state and what changes it: loading, the loaded model, its memory, its events."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from engine.api.failure import Failure
from engine.api.messages import Text
from engine.api.turn import Notice, PrefillProgress
from engine.runtime.settings import LoadSettings

# empty: nothing is loaded; a request for the model that an idle engine gave up loads it again.
# failed: the model's process ended, or a load failed; `failure` says why.
Status = Literal["empty", "loading", "ready", "failed"]


class Plain(BaseModel):
    model_config = ConfigDict(frozen=True)


class LoadRequest(BaseModel):
    """A decoder, with or without its prefiller; `draft` guesses what the decoder writes: a smaller
    model of the same tokens, or an EAGLE-3 head. `force_pairing` takes one that is not known to
    belong. Settings that are not given come from the engine's own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: Text = Field(min_length=1, max_length=4096)
    prefiller: Text | None = Field(default=None, min_length=1, max_length=4096)
    draft: Text | None = Field(default=None, min_length=1, max_length=4096)
    force_pairing: bool = False
    settings: LoadSettings = Field(default_factory=LoadSettings)


class MemoryUse(Plain):
    """Bytes: the decoder's weights, the context and the compute buffers as the library allocated
    them, `on_devices` of these three in graphics cards' own memory; the prefiller's resident
    weights and slots, `lent` of the slots being decoder weights; and all that the drafter takes."""

    weights: int
    context: int
    compute: int
    on_devices: int = 0
    resident: int = 0
    slots: int = 0
    slots_allocated: int = 0
    lent: int = 0
    drafter: int = 0


class ModelInfo(Plain):
    """The loaded model. `id` is what clients call it; sizes in bytes, contexts in tokens.

    `device_blocks`: of its `blocks`, those on devices other than the CPU; its weights, context and
    compute buffers take `device_bytes` there, by device.
    """

    id: str
    path: Path
    name: str
    architecture: str
    file_bytes: int
    context: int
    trained_context: int
    micro_batch: int
    blocks: int
    prefiller: Path | None = None
    prefiller_bytes: int = 0
    draft: Path | None = None
    pairing: str | None = None
    pairing_reasons: tuple[str, ...] = ()
    memory: MemoryUse
    notice: Notice | None = None
    load_s: float = 0.0
    device_blocks: int = 0
    device_bytes: dict[str, int] = {}


class LoadProgress(Plain):
    """How much of the decoder is loaded, from 0 to 1, and how long the rest may take."""

    type: Literal["load_progress"] = "load_progress"
    model: str
    fraction: float
    seconds: float
    remaining_s: float | None = None


class Running(Plain):
    """The request that the model works on."""

    id: str
    kind: str
    seconds: float
    progress: PrefillProgress | None = None


class EngineState(Plain):
    """`idle_unload_s` is the time until an idle model is unloaded, None if it stays."""

    type: Literal["state"] = "state"
    status: Status
    model: ModelInfo | None = None
    loading: LoadProgress | None = None
    failure: Failure | None = None
    running: Running | None = None
    waiting: int = 0
    worker_pid: int | None = None
    idle_unload_s: float | None = None


class RequestProgress(Plain):
    """Progress of a request that some client made."""

    type: Literal["request_progress"] = "request_progress"
    id: str
    progress: PrefillProgress


EngineEvent = Annotated[EngineState | LoadProgress | RequestProgress, Field(discriminator="type")]


class TokenCount(Plain):
    """`tokens` of a text or of a rendered conversation, and what the context holds."""

    tokens: int
    context: int


class CardMemory(Plain):
    """A graphics card's memory as its driver counts it; `free` is what no program holds."""

    bus_id: str
    total: int
    free: int


class MemoryReport(Plain):
    """The model's memory, its process's resident bytes, and the machine's, in bytes. `cards` are
    those whose driver tells."""

    model: MemoryUse | None
    worker_resident: int
    machine_total: int
    machine_available: int
    cards: tuple[CardMemory, ...] = ()
