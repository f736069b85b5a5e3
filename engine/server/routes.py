"""Every route: what it is called with, what it answers, and who answers it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from engine.api import engine as state
from engine.api import openai, requests, survey
from engine.server import openai_routes, openapi, survey_routes, twofold_routes

Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class Endpoint:
    """`events` is what a stream's events hold; `parameters` are OpenAPI's, of the query."""

    method: str
    path: str
    handler: Handler
    summary: str
    body: type[BaseModel] | None = None
    answer: type[BaseModel] | None = None
    events: Any = None
    parameters: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


async def description(_: Request) -> Response:
    return Response(openapi.describe(ENDPOINTS), media_type="application/json")


_LINES = {
    "name": "lines",
    "in": "query",
    "schema": {
        "type": "integer",
        "minimum": 1,
        "maximum": twofold_routes.MAX_LOG_LINES,
        "default": 200,
    },
}

ENDPOINTS = (
    Endpoint(
        "GET", "/openapi.json", description, "This description.",
    ),
    Endpoint(
        "GET", "/v1/models", openai_routes.models, "The loaded model.",
        answer=openai.ModelList,
    ),
    Endpoint(
        "POST", "/v1/chat/completions", openai_routes.chat_completions,
        "Answers a conversation, whole or as a stream.",
        body=openai.ChatRequest, answer=openai.ChatCompletion, events=openai.ChatCompletionChunk,
    ),
    Endpoint(
        "POST", "/v1/completions", openai_routes.completions,
        "Goes on with a text, whole or as a stream.",
        body=openai.CompletionRequest, answer=openai.Completion, events=openai.Completion,
    ),
    Endpoint(
        "POST", "/v1/embeddings", openai_routes.embeddings, "Is refused, with the reason.",
    ),
    Endpoint(
        "POST", "/twofold/load", twofold_routes.load,
        "Loads a model in place of any other, and answers when it is loaded.",
        body=state.LoadRequest, answer=state.ModelInfo,
    ),
    Endpoint(
        "POST", "/twofold/unload", twofold_routes.unload, "Frees the model's memory.",
        answer=state.EngineState,
    ),
    Endpoint(
        "GET", "/twofold/state", twofold_routes.state, "What the engine does now.",
        answer=state.EngineState,
    ),
    Endpoint(
        "GET", "/twofold/events", twofold_routes.events,
        "The state now, and every change and progress from now on.",
        events=state.EngineEvent,
    ),
    Endpoint(
        "GET", "/twofold/memory", twofold_routes.memory, "The memory in use, in bytes.",
        answer=state.MemoryReport,
    ),
    Endpoint(
        "POST", "/twofold/plan", survey_routes.plan,
        "Where a model's weights will go, and how long prompts will take.",
        body=survey.PlanQuery, answer=survey.Planned,
    ),
    Endpoint(
        "GET", "/twofold/probe", survey_routes.known, "What is known of this machine.",
        answer=survey.Probed,
    ),
    Endpoint(
        "POST", "/twofold/probe", survey_routes.probe,
        "Measures this machine, and streams how far it is.",
        body=survey.ProbeQuery, events=survey.ProbeEvent,
    ),
    Endpoint(
        "GET", "/twofold/doctor", survey_routes.doctor, "Whether all is well on this machine.",
        answer=survey.Examined,
    ),
    Endpoint(
        "POST", "/twofold/tokenize", twofold_routes.tokenize, "A text's tokens.",
        body=requests.TokenizeRequest, answer=requests.Tokens,
    ),
    Endpoint(
        "POST", "/twofold/count", twofold_routes.count,
        "How many tokens a text or a conversation has.",
        body=requests.CountRequest, answer=state.TokenCount,
    ),
    Endpoint(
        "POST", "/twofold/cancel", twofold_routes.cancel,
        "Stops a request, or all of them and a load.",
        body=requests.CancelRequest, answer=requests.Cancelled,
    ),
    Endpoint(
        "GET", "/twofold/settings", twofold_routes.settings, "All settings and their values.",
        answer=requests.SettingsAnswer,
    ),
    Endpoint(
        "PUT", "/twofold/settings", twofold_routes.change_settings,
        "Changes settings in the settings file.",
        body=requests.SettingChanges, answer=requests.SettingsAnswer,
    ),
    Endpoint(
        "GET", "/twofold/logs", twofold_routes.log_lines, "The end of the log.",
        answer=requests.LogLines, parameters=[_LINES],
    ),
)  # fmt: skip
