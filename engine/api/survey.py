"""What clients ask about the machine: plans for a model, measurements, and the doctor's report."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from engine.api.failure import Failure
from engine.api.hardware import Profile
from engine.api.messages import Text
from engine.api.plan import Plan
from engine.api.turn import PathSetting


class _Given(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Sent(BaseModel):
    model_config = ConfigDict(frozen=True)


class PlanQuery(_Given):
    """A decoder with or without its prefiller; `context` in tokens, None for the engine's own."""

    model: Text = Field(min_length=1, max_length=4096)
    prefiller: Text | None = Field(default=None, min_length=1, max_length=4096)
    force_pairing: bool = False
    mode: PathSetting = "auto"
    context: int | None = Field(default=None, ge=64)


class Planned(_Sent):
    """The plan, and the machine that it is for; the disk that is read from comes first."""

    type: Literal["planned"] = "planned"
    plan: Plan
    profile: Profile


class ProbeQuery(_Given):
    """Measures what is not known yet, or all `again`; or only the disk that holds `folder`."""

    again: bool = False
    folder: Text | None = Field(default=None, min_length=1, max_length=4096)


class ProbeStep(_Sent):
    """`what` is being measured, `share` of it is done, and comes at `gbps` (10^9 bytes/s)."""

    type: Literal["step"] = "step"
    what: str
    share: float | None = None
    gbps: float | None = None


class Probed(_Sent):
    type: Literal["probed"] = "probed"
    profile: Profile


class BundleQuery(_Given):
    """The file to write the diagnostics to."""

    path: Text = Field(min_length=1, max_length=4096)


class Examined(_Sent):
    """All that `./twofold doctor --json` prints; `bundle` is the archive that was written."""

    type: Literal["examined"] = "examined"
    report: dict[str, Any]
    bundle: str | None = None


class SurveyFailed(_Sent):
    type: Literal["failed"] = "failed"
    failure: Failure


SurveyEvent = Annotated[
    Planned | ProbeStep | Probed | Examined | SurveyFailed, Field(discriminator="type")
]
# What a stream of a measurement holds.
ProbeEvent = Annotated[ProbeStep | Probed, Field(discriminator="type")]
