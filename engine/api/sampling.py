"""How the next token is chosen, and when an answer ends."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Drafts = Literal["auto", "off"]
StopString = Annotated[str, StringConstraints(min_length=1, max_length=128)]


class SamplingSettings(BaseModel):
    """Sampling settings; a value out of range is refused, never clamped.

    `temperature` 0 takes the likeliest token. `top_k` 0, `top_p` 1, `min_p` 0 and
    `repeat_penalty` 1 switch that step off. `penalty_last_n` is in tokens. `seed` None draws
    one, and the turn's report names it. `max_tokens` None writes until the model ends or the
    context is full. `stop` applies to the answer, not to reasoning. `logprobs` asks for each
    token's log probability and for as many of the likeliest. `grammar` (GBNF, from its rule
    `root`) is what the answer must follow; reasoning before it is free. `drafts` "auto" lets one
    pass verify several drafted tokens where that is faster; the answer is the same.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    temperature: float = Field(default=0.8, ge=0.0, le=2.0)
    top_k: int = Field(default=40, ge=0, le=1_000_000)
    top_p: float = Field(default=0.95, gt=0.0, le=1.0)
    min_p: float = Field(default=0.05, ge=0.0, le=1.0)
    repeat_penalty: float = Field(default=1.0, ge=0.1, le=2.0)
    presence_penalty: float = Field(default=0.0, ge=-2.0, le=2.0)
    frequency_penalty: float = Field(default=0.0, ge=-2.0, le=2.0)
    penalty_last_n: int = Field(default=64, ge=0, le=1_000_000)
    seed: int | None = Field(default=None, ge=0, lt=2**32)
    max_tokens: int | None = Field(default=None, ge=1)
    stop: tuple[StopString, ...] = Field(default=(), max_length=16)
    logprobs: int | None = Field(default=None, ge=0, le=20)
    grammar: str | None = Field(default=None, min_length=1, max_length=1_000_000)
    drafts: Drafts = "auto"
