"""Turns OpenAI's requests into the worker's commands, or says what cannot be served."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from engine.api.messages import Message, ToolCall
from engine.api.openai import (
    ChatMessage,
    ChatRequest,
    CompletionRequest,
    Content,
    OtherPart,
    ResponseFormat,
)
from engine.api.sampling import SamplingSettings
from engine.server.errors import BadRequest, Unsupported
from engine.settings import GenerationSettings, Settings
from engine.worker.protocol import Ask, Complete

# OpenAI allows 0 for "only the likeliest"; the sampler wants a positive share.
_LEAST_TOP_P = 1e-6


def ask_command(request: ChatRequest, settings: Settings, job_id: str) -> Ask:
    """Raises BadRequest or Unsupported."""
    _refuse_common(request)
    if request.top_logprobs and not request.logprobs:
        raise BadRequest(field="top_logprobs", problem="it needs logprobs to be true")
    tools = request.tools if request.tools and request.tool_choice != "none" else []
    if request.tool_choice not in (None, "none", "auto"):
        raise Unsupported(field="tool_choice", why="the model decides whether it calls a tool")
    options = dict(request.chat_template_kwargs)
    if request.reasoning_effort is not None:
        options["reasoning_effort"] = request.reasoning_effort
    return Ask(
        id=job_id,
        messages=tuple(
            _message(message, f"messages.{index}") for index, message in enumerate(request.messages)
        ),
        sampling=_sampling(
            request,
            settings.generation,
            max_tokens=request.max_completion_tokens or request.max_tokens,
            logprobs=(request.top_logprobs or 0) if request.logprobs else None,
        ),
        path=request.twofold.path or settings.engine.path,
        template_options=options,
        tools=tuple(tool.model_dump(exclude_none=True) for tool in tools),
        continue_last=request.twofold.continue_last,
        json_schema=_schema(request.response_format),
    )


def _schema(wanted: ResponseFormat | None) -> dict[str, Any] | None:
    if wanted is None or wanted.type == "text":
        return None
    if wanted.type == "json_object":
        return {"type": "object"}
    if wanted.json_schema is None:
        raise BadRequest(field="response_format.json_schema", problem="it is missing")
    return wanted.json_schema.schema_


def complete_command(request: CompletionRequest, settings: Settings, job_id: str) -> Complete:
    """Raises BadRequest or Unsupported."""
    _refuse_common(request)
    prompt = request.prompt
    if isinstance(prompt, list):
        if len(prompt) != 1:
            raise Unsupported(field="prompt", why="one prompt is answered at a time")
        prompt = prompt[0]
    if request.suffix:
        raise Unsupported(field="suffix", why="text is only continued, not filled in")
    if request.best_of not in (None, 1):
        raise Unsupported(field="best_of", why="one answer is written for each request")
    return Complete(
        id=job_id,
        prompt=prompt,
        sampling=_sampling(
            request,
            settings.generation,
            max_tokens=request.max_tokens,
            logprobs=request.logprobs,
        ),
        path=request.twofold.path or settings.engine.path,
    )


def _refuse_common(request: ChatRequest | CompletionRequest) -> None:
    if request.n not in (None, 1):
        raise Unsupported(field="n", why="one answer is written for each request")
    if request.logit_bias:
        raise Unsupported(field="logit_bias", why="single tokens cannot be made likelier")


def _message(message: ChatMessage, field: str) -> Message:
    role = "system" if message.role == "developer" else message.role
    return Message(
        role=role,
        content=_text(message.content, f"{field}.content"),
        reasoning=message.reasoning_content or None,
        tool_calls=tuple(
            ToolCall(id=call.id, name=call.function.name, arguments=call.function.arguments)
            for call in message.tool_calls or ()
        ),
        tool_call_id=message.tool_call_id,
        name=message.name,
    )


def _text(content: Content | None, field: str) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    texts: list[str] = []
    for part in content:
        if isinstance(part, OtherPart):
            raise Unsupported(field=field, why=f"the model reads text, and no {part.type}")
        texts.append(part.text)
    return "\n".join(texts)


def _sampling(
    request: ChatRequest | CompletionRequest,
    defaults: GenerationSettings,
    *,
    max_tokens: int | None,
    logprobs: int | None,
) -> SamplingSettings:
    given: dict[str, Any] = defaults.model_dump()
    for name in SamplingSettings.model_fields:  # those that OpenAI calls otherwise come below
        value = getattr(request, name, None)
        if value is not None:
            given[name] = value
    stop = request.stop
    given |= {
        "top_k": max(0, given["top_k"]),
        "top_p": max(_LEAST_TOP_P, given["top_p"]),
        "seed": None if request.seed is None else request.seed % 2**32,
        "max_tokens": max_tokens or defaults.max_tokens,
        "logprobs": logprobs,
        "stop": () if stop is None else (stop,) if isinstance(stop, str) else tuple(stop),
    }
    try:
        return SamplingSettings.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise BadRequest(field=field, problem=first["msg"]) from None
