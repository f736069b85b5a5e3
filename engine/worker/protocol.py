"""What the server and its worker say to each other: one JSON object a line, on pipes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from engine.api.engine import LoadRequest, MemoryUse, ModelInfo
from engine.api.failure import Failure
from engine.api.messages import Message
from engine.api.sampling import SamplingSettings
from engine.api.turn import PathSetting, TurnEvent


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Load(_Line):
    """The first command, and the only load of a worker's life."""

    type: Literal["load"] = "load"
    request: LoadRequest


class Ask(_Line):
    """A conversation to answer; `continue_last` goes on with its last message. The answer follows
    `json_schema` if one is given."""

    type: Literal["ask"] = "ask"
    id: str
    messages: tuple[Message, ...]
    sampling: SamplingSettings
    path: PathSetting
    template_options: dict[str, Any] = {}
    tools: tuple[dict[str, Any], ...] = ()
    must_call: tuple[str, ...] = ()
    continue_last: bool = False
    json_schema: dict[str, Any] | None = None


class Complete(_Line):
    """A text to go on with, as it is."""

    type: Literal["complete"] = "complete"
    id: str
    prompt: str
    sampling: SamplingSettings
    path: PathSetting


class Count(_Line):
    """The tokens of a text, or of a conversation with its template."""

    type: Literal["count"] = "count"
    id: str
    text: str | None = None
    messages: tuple[Message, ...] = ()


class Measure(_Line):
    """How much memory the model takes now."""

    type: Literal["measure"] = "measure"
    id: str


class Cancel(_Line):
    """Stops a request, or the load if there is no `id`."""

    type: Literal["cancel"] = "cancel"
    id: str | None = None


Job = Ask | Complete
Command = Annotated[Load | Ask | Complete | Count | Measure | Cancel, Field(discriminator="type")]


class Loading(_Line):
    """The fraction of the decoder that is loaded."""

    type: Literal["loading"] = "loading"
    fraction: float


class Loaded(_Line):
    type: Literal["loaded"] = "loaded"
    model: ModelInfo


class Event(_Line):
    """What a turn tells its client."""

    type: Literal["event"] = "event"
    id: str
    event: TurnEvent


class Done(_Line):
    """A request ended well."""

    type: Literal["done"] = "done"
    id: str


class Counted(_Line):
    type: Literal["counted"] = "counted"
    id: str
    tokens: tuple[int, ...]


class Measured(_Line):
    type: Literal["measured"] = "measured"
    id: str
    memory: MemoryUse


class Failed(_Line):
    """A request failed, or the load if there is no `id`; the worker lives on."""

    type: Literal["failed"] = "failed"
    id: str | None = None
    failure: Failure


Reply = Annotated[
    Loading | Loaded | Event | Done | Counted | Measured | Failed, Field(discriminator="type")
]

COMMAND: TypeAdapter[Command] = TypeAdapter(Command)
REPLY: TypeAdapter[Reply] = TypeAdapter(Reply)
# The longest line that either side takes, in bytes: a context's worth of text, escaped.
MAX_LINE = 256 << 20
