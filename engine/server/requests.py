"""Turns OpenAI's requests into the worker's commands, or says what cannot be served."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import ValidationError

from engine.api.messages import Message, ToolCall
from engine.api.openai import (
    ChatMessage,
    ChatRequest,
    CompletionRequest,
    Content,
    OtherPart,
    ResponseFormat,
    ToolChoice,
)
from engine.api.sampling import SamplingSettings
from engine.server.errors import BadRequest, Unsupported
from engine.server.job import NUMBER
from engine.settings import GenerationSettings, Settings
from engine.worker.protocol import Ask, Complete

J = TypeVar("J", Ask, Complete)

# To one request: OpenAI's own limit.
MOST_ANSWERS = 128
# OpenAI allows 0 for "only the likeliest"; the sampler wants a positive share.
_LEAST_TOP_P = 1e-6


def ask_commands(request: ChatRequest, settings: Settings, job_id: str) -> list[Ask]:
    """One for each answer. Raises BadRequest or Unsupported."""
    _refuse_common(request)
    if request.top_logprobs and not request.logprobs:
        raise BadRequest(field="top_logprobs", problem="it needs logprobs to be true")
    tools = request.tools if request.tools and request.tool_choice != "none" else []
    options = dict(request.chat_template_kwargs)
    if request.reasoning_effort is not None:
        options["reasoning_effort"] = request.reasoning_effort
    command = Ask(
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
        must_call=_must_call(request),
        continue_last=request.twofold.continue_last,
        json_schema=_schema(request.response_format),
    )
    return repeated(command, request.n)


def _must_call(request: ChatRequest) -> tuple[str, ...]:
    """The tools of which the answer has to call one; none if the model may decide."""
    choice, names = request.tool_choice, [tool.function.name for tool in request.tools or ()]
    if choice in (None, "none", "auto"):
        return ()
    if not names:
        raise BadRequest(field="tool_choice", problem="there are no tools to call")
    if choice == "required":
        return tuple(names)
    try:
        wanted = ToolChoice.model_validate(choice).function.name
    except ValidationError:
        why = 'it is "none", "auto", "required" or a function by its name'
        raise Unsupported(field="tool_choice", why=why) from None
    if wanted not in names:
        raise BadRequest(field="tool_choice", problem=f"no tool is called {wanted!r}")
    return (wanted,)


def _schema(wanted: ResponseFormat | None) -> dict[str, Any] | None:
    if wanted is None or wanted.type == "text":
        return None
    if wanted.type == "json_object":
        return {"type": "object"}
    if wanted.json_schema is None:
        raise BadRequest(field="response_format.json_schema", problem="it is missing")
    return wanted.json_schema.schema_


def complete_commands(
    request: CompletionRequest, settings: Settings, job_id: str
) -> list[Complete]:
    """One for each answer: `n` for each prompt. Raises BadRequest or Unsupported."""
    _refuse_common(request)
    prompts = [request.prompt] if isinstance(request.prompt, str) else request.prompt
    if not 1 <= len(prompts) <= MOST_ANSWERS:
        problem = f"from one to {MOST_ANSWERS} prompts are answered"
        raise BadRequest(field="prompt", problem=problem)
    if len(prompts) * (request.n or 1) > MOST_ANSWERS:
        problem = f"all prompts together get at most {MOST_ANSWERS} answers"
        raise BadRequest(field="n", problem=problem)
    if request.suffix:
        raise Unsupported(field="suffix", why="text is only continued, not filled in")
    if request.best_of not in (None, request.n or 1):
        raise Unsupported(field="best_of", why="all answers that are written are given")
    sampling = _sampling(
        request, settings.generation, max_tokens=request.max_tokens, logprobs=request.logprobs
    )
    path = request.twofold.path or settings.engine.path
    commands: list[Complete] = []
    for prompt in prompts:
        one = Complete(id=job_id, prompt=prompt, sampling=sampling, path=path)
        commands += repeated(one, request.n)
    return [_numbered(command, index) for index, command in enumerate(commands)]


def repeated(command: J, n: int | None) -> list[J]:
    """The command for each of `n` answers; a seed that was given counts up, or all were equal."""
    seed = command.sampling.seed
    commands: list[J] = []
    for index in range(n or 1):
        following = None if seed is None else (seed + index) % 2**32
        sampling = command.sampling.model_copy(update={"seed": following})
        commands.append(_numbered(command.model_copy(update={"sampling": sampling}), index))
    return commands


def _numbered(command: J, index: int) -> J:
    """Answers after the first have the request's id and a number."""
    job_id = command.id.partition(NUMBER)[0]
    return command.model_copy(update={"id": f"{job_id}{NUMBER}{index}" if index else job_id})


def _refuse_common(request: ChatRequest | CompletionRequest) -> None:
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
