"""Twofold's own routes: load, unload, state, memory, tokens, cancel, events, settings, logs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from engine import logs
from engine.api.engine import LoadRequest, TokenCount
from engine.api.requests import (
    Cancelled,
    CancelRequest,
    CountRequest,
    LogLines,
    SettingChanges,
    SettingsAnswer,
    TokenizeRequest,
    Tokens,
)
from engine.runtime.settings import LoadSettings
from engine.server.answers import json_response, read
from engine.server.context import context_of
from engine.server.engine import Engine
from engine.server.errors import BadRequest
from engine.server.sse import EventStream
from engine.settings import LoadDefaults
from engine.worker.protocol import Count

MAX_LOG_LINES = 10_000


async def load(request: Request) -> Response:
    """Answers when the model is loaded. A client that goes does not stop the load; cancel does."""
    context = context_of(request)
    wanted = await read(request, LoadRequest)
    resolved = wanted.model_copy(
        update={"settings": with_defaults(wanted.settings, context.settings.current.load)}
    )
    return json_response(await context.engine.load(resolved))


def with_defaults(given: LoadSettings, defaults: LoadDefaults) -> LoadSettings:
    """`given`, with the engine's own settings where it says nothing."""
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
    tokens = await engine.tokens(command)
    model = engine.model
    return json_response(TokenCount(tokens=len(tokens), context=model.context if model else 0))


async def tokenize(request: Request) -> Response:
    engine = context_of(request).engine
    wanted = await read(request, TokenizeRequest)
    command = Count(id=engine.new_id("tokenize"), text=wanted.text)
    return json_response(Tokens(tokens=await engine.tokens(command)))


async def cancel(request: Request) -> Response:
    wanted = await read(request, CancelRequest)
    cancelled = await context_of(request).engine.cancel_all(wanted.id)
    return json_response(Cancelled(cancelled=cancelled))


async def settings(request: Request) -> Response:
    return json_response(SettingsAnswer(settings=context_of(request).settings.infos()))


async def change_settings(request: Request) -> Response:
    context = context_of(request)
    wanted = await read(request, SettingChanges)
    restart = await run_in_threadpool(context.settings.change, wanted.values)
    context.engine.settings_changed()
    return json_response(SettingsAnswer(settings=context.settings.infos(), restart=restart))


async def log_lines(request: Request) -> Response:
    """The end of the log; `?lines=` says how much of it."""
    wanted = request.query_params.get("lines", "200")
    if not (wanted.isascii() and wanted.isdecimal() and 1 <= int(wanted[:9]) <= MAX_LOG_LINES):
        raise BadRequest(field="lines", problem=f"it must be from 1 to {MAX_LOG_LINES}")
    return json_response(LogLines(lines=await run_in_threadpool(logs.tail, int(wanted))))


async def events(request: Request) -> Response:
    """The engine's events from now on, the present state first."""
    return EventStream(_events(context_of(request).engine))


async def _events(engine: Engine) -> AsyncGenerator[str]:
    with engine.events.listening() as listener:
        yield engine.state().model_dump_json()
        while (event := await listener.get()) is not None:
            yield event.model_dump_json()
