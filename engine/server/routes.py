"""Every route: what it is called with, what it answers, and who answers it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from engine.api import backends as gpu
from engine.api import engine as state
from engine.api import models, openai, requests, survey
from engine.server import (
    backends_routes,
    models_routes,
    openai_routes,
    openapi,
    survey_routes,
    twofold_routes,
)

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
        "GET", "/twofold/backends", backends_routes.backends,
        "The GPU backends that are installed, and what their last check found.",
        answer=gpu.Backends,
    ),
    Endpoint(
        "POST", "/twofold/backends", backends_routes.change_backend,
        "Says whether a GPU backend is wanted; holds from the next load on.",
        body=gpu.BackendChange, answer=gpu.Backends,
    ),
    Endpoint(
        "POST", "/twofold/backends/install", backends_routes.install_backend,
        "Installs a GPU backend's file and checks it. It runs with the engine's rights.",
        body=gpu.BackendFile, answer=gpu.Backends,
    ),
    Endpoint(
        "POST", "/twofold/backends/check", backends_routes.check_backend,
        "Checks a GPU backend now, in a process of its own.",
        body=gpu.BackendName, answer=gpu.Backends,
    ),
    Endpoint(
        "POST", "/twofold/backends/remove", backends_routes.remove_backend,
        "Removes a GPU backend; holds from the next load on.",
        body=gpu.BackendName, answer=gpu.Backends,
    ),
    Endpoint(
        "POST", "/twofold/bundle", survey_routes.bundle,
        "Writes diagnostics, without what is private, into an archive on this machine.",
        body=survey.BundleQuery, answer=survey.Examined,
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
    Endpoint(
        "GET", "/twofold/models", models_routes.library, "The models on this machine.",
        answer=models.LibraryAnswer,
    ),
    Endpoint(
        "POST", "/twofold/models/search", models_routes.search,
        "Searches the hub by words; an address or a repo's name opens that repo.",
        body=models.SearchRequest, answer=models.SearchAnswer,
    ),
    Endpoint(
        "GET", "/twofold/models/recommended", models_routes.recommended,
        "One model to begin with on this machine, with its prefiller if one is published.",
        answer=models.Recommended,
    ),
    Endpoint(
        "POST", "/twofold/models/offers", models_routes.offers,
        "Prefillers for a decoder that is here: installed, published, or to be built.",
        body=models.EntryRequest, answer=models.Offers,
    ),
    Endpoint(
        "POST", "/twofold/models/pull", models_routes.pull, "Queues a download.",
        body=models.PullRequest, answer=models.JobList,
    ),
    Endpoint(
        "POST", "/twofold/models/build", models_routes.build,
        "Queues the building of a prefiller.",
        body=models.BuildRequest, answer=models.JobInfo,
    ),
    Endpoint(
        "POST", "/twofold/models/verify", models_routes.verify,
        "Queues the reading of every byte of a model.",
        body=models.EntryRequest, answer=models.JobInfo,
    ),
    Endpoint(
        "POST", "/twofold/models/import", models_routes.import_model,
        "Queues bringing local files into the library.",
        body=models.ImportRequest, answer=models.JobInfo,
    ),
    Endpoint(
        "POST", "/twofold/models/export", models_routes.export_model,
        "Queues copying a model's files out of the library.",
        body=models.ExportRequest, answer=models.JobInfo,
    ),
    Endpoint(
        "POST", "/twofold/models/move", models_routes.move_library,
        "Queues moving the library to another folder.",
        body=models.MoveRequest, answer=models.JobInfo,
    ),
    Endpoint(
        "POST", "/twofold/models/remove", models_routes.remove_model,
        "Says what removing a model would take away, and does it when confirmed.",
        body=models.RemoveRequest, answer=models.Removal,
    ),
    Endpoint(
        "GET", "/twofold/models/jobs", models_routes.jobs, "All downloads and other work.",
        answer=models.JobList,
    ),
    Endpoint(
        "POST", "/twofold/models/jobs", models_routes.change_job,
        "Pauses, resumes, retries, cancels or removes a job, or changes its priority.",
        body=models.JobRequest, answer=models.JobInfo,
    ),
    Endpoint(
        "GET", "/twofold/models/events", models_routes.job_events,
        "All jobs now, and again whenever one of them changes.",
        events=models.JobList,
    ),
    Endpoint(
        "GET", "/twofold/models/token", models_routes.token_source,
        "Where the hub's token comes from; never the token.",
        answer=models.TokenAnswer,
    ),
    Endpoint(
        "PUT", "/twofold/models/token", models_routes.keep_token,
        "Keeps the hub's token in the system's keyring, or takes it out.",
        body=models.TokenRequest, answer=models.TokenAnswer,
    ),
)  # fmt: skip
