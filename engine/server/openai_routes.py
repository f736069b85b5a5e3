"""OpenAI's routes: models, chat completions, completions, embeddings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from engine.api.openai import ChatRequest, CompletionRequest, Model, ModelList, StreamOptions
from engine.server.answers import json_response, read
from engine.server.context import context_of
from engine.server.engine import Engine
from engine.server.errors import NoEmbeddings, NoSuchModel
from engine.server.job import Answers
from engine.server.requests import ask_commands, complete_commands
from engine.server.responses import ChatStream, CompletionStream, chat_completion, completion
from engine.server.sse import EventStream, disconnected

R = TypeVar("R")

# A stream's status waits this long for the first event, which tells whether the request is valid.
FIRST_EVENT_S = 5.0
# Names that mean whatever is loaded.
ANY_MODEL = ("", "default", "twofold")


async def models(request: Request) -> Response:
    model = context_of(request).engine.model
    return json_response(ModelList(data=[Model(id=model.id, created=0)] if model else []))


async def chat_completions(request: Request) -> Response:
    context = context_of(request)
    engine = context.engine
    wanted = await read(request, ChatRequest)
    name = model_name(engine, wanted.model)
    commands = ask_commands(wanted, context.settings.current, engine.new_id("chatcmpl"))
    answers = engine.answers(commands, n=wanted.n or 1)
    if not wanted.stream:
        answer = await unless_gone(request, answers, chat_completion(answers, name))
        return json_response(answer) if answer else Response()
    stream = ChatStream(
        answers,
        name,
        include_usage=includes_usage(wanted.stream_options),
        include_events=wanted.twofold.events,
    )
    return await streamed(request, answers, stream.texts)


async def completions(request: Request) -> Response:
    context = context_of(request)
    engine = context.engine
    wanted = await read(request, CompletionRequest)
    name = model_name(engine, wanted.model)
    commands = complete_commands(wanted, context.settings.current, engine.new_id("cmpl"))
    answers = engine.answers(commands, n=wanted.n or 1)
    echo = bool(wanted.echo)
    if not wanted.stream:
        answer = await unless_gone(request, answers, completion(answers, name, echo=echo))
        return json_response(answer) if answer else Response()
    stream = CompletionStream(
        answers,
        name,
        echo=echo,
        include_usage=includes_usage(wanted.stream_options),
        include_events=wanted.twofold.events,
    )
    return await streamed(request, answers, stream.texts)


async def embeddings(request: Request) -> Response:
    model = context_of(request).engine.model
    raise NoEmbeddings(model=model.id if model else "no model")


def model_name(engine: Engine, wanted: str) -> str:
    """The loaded model's id. Raises NoSuchModel, or what tells why none is loaded."""
    model = engine.model
    if model is None:
        engine.require_model()
        return wanted  # a load is under way
    if wanted not in (*ANY_MODEL, model.id):
        raise NoSuchModel(wanted=wanted, loaded=model.id)
    return model.id


def includes_usage(options: StreamOptions | None) -> bool:
    return options is not None and options.include_usage


async def streamed(
    request: Request, answers: Answers, texts: Callable[[], AsyncGenerator[str]]
) -> Response:
    """A stream of the answers' texts. Raises Failed for what the model refuses at once."""
    await unless_gone(request, answers, answers.job.begun(FIRST_EVENT_S))
    return EventStream(texts(), on_end=answers.cancel)


async def unless_gone(request: Request, answers: Answers, work: Coroutine[Any, Any, R]) -> R | None:
    """What `work` gives. Stops the answers if the client goes first, or if `work` fails."""
    working = asyncio.create_task(work)
    gone = asyncio.create_task(disconnected(request.receive))
    try:
        await asyncio.wait((working, gone), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        answers.cancel()
        return None
    except BaseException:
        answers.cancel()
        raise
    finally:
        gone.cancel()
        working.cancel()
