"""What the process that looks at the machine is asked."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from engine.api.survey import PlanQuery, ProbeQuery
from engine.settings import LoadDefaults


class _Asked(BaseModel):
    model_config = ConfigDict(frozen=True)


class AskPlan(_Asked):
    """`replaced`: bytes by device that the model in memory gives back."""

    type: Literal["plan"] = "plan"
    query: PlanQuery
    defaults: LoadDefaults = LoadDefaults()
    replaced: dict[str, int] = {}


class AskProbe(_Asked):
    """`measure` False: only what is known already."""

    type: Literal["probe"] = "probe"
    query: ProbeQuery = ProbeQuery()
    measure: bool = True
    folders: tuple[str, ...] = ()


class AskDoctor(_Asked):
    """`bundle`: where to write the report, the settings and the logs as one archive."""

    type: Literal["doctor"] = "doctor"
    bundle: str | None = None


Question = Annotated[AskPlan | AskProbe | AskDoctor, Field(discriminator="type")]
