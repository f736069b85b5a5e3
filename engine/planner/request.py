"""What the user wants of a plan; everything that is left out, the planner decides."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from engine.api.plan import KvType
from engine.api.turn import DEFAULT_POLICY, PathSetting, Policy


class PlanRequest(BaseModel):
    """`context` in tokens (None: the model's, up to 16,384). `replaced`: bytes by device name that
    a model about to be replaced holds. `disk`: the path that the prefiller is read from.

    `device_blocks` and `host_blocks` limit the prefiller's blocks in those tiers: 0 for both is
    pure streaming, which is what the mode `odp` means without them. `decoder_device_blocks` sets
    how many of the decoder's are on the device.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    context: int | None = Field(default=None, ge=64)
    kv_type: KvType = "f16"
    mode: PathSetting = "auto"
    policy: Policy = DEFAULT_POLICY
    device: str | None = None
    disk: str | None = None
    force_pairing: bool = False
    replaced: dict[str, int] = {}
    micro_batch: int | None = Field(default=None, ge=32)
    slots: int = Field(default=2, ge=1, le=64)
    carve_out: bool = True
    device_blocks: int | None = Field(default=None, ge=0)
    host_blocks: int | None = Field(default=None, ge=0)
    decoder_device_blocks: int | None = Field(default=None, ge=0)
