"""Twofold's own routes: load, unload, state, memory, count, cancel, events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from engine.api.engine import LoadRequest, TokenCount
from engine.api.messages import Message, Text
from engine.runtime.settings import LoadSettings
from engine.server.answers import json_response, read
from engine.server.context import context_of
from engine.server.engine import Engine
from engine.server.errors import BadRequest
from engine.server.sse import EventStream
from engine.settings import LoadDefaults
from engine.worker.protocol import Count


class CountRequest(BaseModel):
    """A text, or a conversation as the model's template renders it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: Text | None = None
    messages: list[Message] | None = Field(default=None, min_length=1)


class CancelRequest(BaseModel):
    """The request to stop; without an id, all of them and a load that is under way."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str | None = Field(default=None, max_length=100)


class Cancelled(BaseModel):
    cancelled: int


async def load(request: Request) -> Response:
    """Answers when the model is loaded. A client that goes does not stop the load; cancel does."""
    context = context_of(request)
    wanted = await read(request, LoadRequest)
    resolved = wanted.model_copy(
        update={"settings": _with_defaults(wanted.settings, context.settings.current.load)}
    )
    return json_response(await context.engine.load(resolved))


def _with_defaults(given: LoadSettings, defaults: LoadDefaults) -> LoadSettings:
    values: dict[str, Any] = defaults.model_dump(exclude_none=True)
    return LoadSettings.model_validate({**values, **given.model_dump(exclude_unset=True)})


async def unload(request: Request) -> Response:
    engine = context_of(request).engine
    await engine.unload()
    return json_response(engine.state())


async def state(request: Request) -> Response:
    return json_response(context_of(request).engine.state())


async def memory(request: Request) -> Response:
    return json_response(await context_of(request).engine.memory())


async def count(request: Request) -> Response:
    engine = context_of(request).engine
    wanted = await read(request, CountRequest)
    if (wanted.text is None) == (wanted.messages is None):
        raise BadRequest(field="text", problem="give either text or messages")
    command = Count(
        id=engine.new_id("count"), text=wanted.text, messages=tuple(wanted.messages or ())
    )
    tokens = await engine.count(command)
    model = engine.model
    return json_response(TokenCount(tokens=tokens, context=model.context if model else 0))


async def cancel(request: Request) -> Response:
    wanted = await read(request, CancelRequest)
    return json_response(
        Cancelled(cancelled=await context_of(request).engine.cancel_all(wanted.id))
    )


async def events(request: Request) -> Response:
    """The engine's events from now on, the present state first."""
    return EventStream(_events(context_of(request).engine))


async def _events(engine: Engine) -> AsyncGenerator[str]:
    with engine.events.listening() as listener:
        yield engine.state().model_dump_json()
        while True:
            yield (await listener.get()).model_dump_json()
