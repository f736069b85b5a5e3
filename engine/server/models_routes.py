"""Routes about models: the library, the hub, and the queue of work with its progress."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from engine.api.hardware import Profile
from engine.api.models import (
    BuildRequest,
    EntryRequest,
    ExportRequest,
    ImportRequest,
    JobList,
    JobRequest,
    MoveRequest,
    Offers,
    PullRequest,
    Recommended,
    Removal,
    RemoveRequest,
    SearchRequest,
    TokenRequest,
)
from engine.api.survey import Probed
from engine.library.errors import InUse
from engine.server.answers import json_response, read
from engine.server.context import Context, context_of
from engine.server.errors import BadRequest
from engine.server.sse import EventStream
from engine.survey.ask import SurveyEnded, asked
from engine.survey.questions import AskProbe

if TYPE_CHECKING:
    from engine.downloads.jobs import Job
    from engine.downloads.service import Models

T = TypeVar("T")

# How often the stream looks whether a job has changed.
LOOK_S = 0.4


async def library(request: Request) -> Response:
    return json_response(await _with_models(request, lambda models: models.library.read()))


async def search(request: Request) -> Response:
    wanted = await read(request, SearchRequest)
    profile = await _profile()
    return json_response(
        await _with_models(
            request,
            lambda models: models.browser(lambda: profile).search(wanted.query, wanted.limit),
        )
    )


async def recommended(request: Request) -> Response:
    """Takes some seconds: the hub is asked about each that may fit."""
    profile = await _profile()
    return json_response(
        await _with_models(
            request, lambda models: Recommended(best=models.recommended(lambda: profile))
        )
    )


async def offers(request: Request) -> Response:
    wanted = await read(request, EntryRequest)
    profile = await _profile()

    def find(models: Models) -> Offers:
        entry = models.library.find(wanted.id)
        return Offers(offers=models.browser(lambda: profile).offers(entry))

    return json_response(await _with_models(request, find))


# --- work ----------------------------------------------------------------------------------------


async def pull(request: Request) -> Response:
    wanted = await read(request, PullRequest)
    queued = await _with_models(
        request,
        lambda models: models.pull(
            wanted.model,
            prefiller=wanted.prefiller,
            projector=wanted.projector,
            priority=wanted.priority,
        ),
    )
    return json_response(JobList(jobs=tuple(job.info() for job in queued)))


async def build(request: Request) -> Response:
    wanted = await read(request, BuildRequest)
    source = _path("source", wanted.source) if wanted.source else None
    return await _queued(request, lambda models: models.build(wanted.id, source))


async def verify(request: Request) -> Response:
    wanted = await read(request, EntryRequest)
    return await _queued(request, lambda models: models.verify(wanted.id))


async def import_model(request: Request) -> Response:
    wanted = await read(request, ImportRequest)
    path = _path("path", wanted.path)
    return await _queued(request, lambda models: models.bring_in(path, wanted.way))


async def export_model(request: Request) -> Response:
    wanted = await read(request, ExportRequest)
    folder = _path("folder", wanted.folder)
    return await _queued(request, lambda models: models.export(wanted.id, folder))


async def move_library(request: Request) -> Response:
    wanted = await read(request, MoveRequest)
    folder = _path("folder", wanted.folder)
    return await _queued(request, lambda models: models.move(folder))


async def remove_model(request: Request) -> Response:
    """A model that is loaded stays: its weights may be read from the files at any time."""
    wanted = await read(request, RemoveRequest)
    context = context_of(request)

    def remove(models: Models) -> Removal:
        entry, what = models.removal(wanted.id)
        if wanted.confirm:
            if _loaded(context) & set(what.goes):
                raise InUse(name=entry.name)
            models.remove(what)
        return what

    return json_response(await _with_models(request, remove))


async def jobs(request: Request) -> Response:
    return json_response(await _with_models(request, _job_list))


async def change_job(request: Request) -> Response:
    wanted = await read(request, JobRequest)
    return await _queued(
        request, lambda models: models.act(wanted.id, wanted.action, wanted.priority)
    )


async def job_events(request: Request) -> Response:
    return EventStream(_job_events(request))


# --- the token -----------------------------------------------------------------------------------


async def token_source(request: Request) -> Response:
    return json_response(await _with_models(request, lambda models: models.token_source()))


async def keep_token(request: Request) -> Response:
    wanted = await read(request, TokenRequest)
    return json_response(await _with_models(request, lambda models: models.token(wanted.token)))


# --- how -----------------------------------------------------------------------------------------


async def _with_models(request: Request, work: Callable[[Models], T]) -> T:
    """Off the event loop: disks and the hub take their time."""
    lazy = context_of(request).models
    return await run_in_threadpool(lambda: work(lazy.get()))


async def _queued(request: Request, work: Callable[[Models], Job]) -> Response:
    job = await _with_models(request, work)
    return json_response(job.info())


async def _job_events(request: Request) -> AsyncGenerator[str]:
    """From the queue on disk, so that another process's work is seen as well."""
    told = None
    while True:
        found = await _with_models(request, _job_list)
        if found != told:
            told = found
            yield found.model_dump_json()
        await asyncio.sleep(LOOK_S)


def _job_list(models: Models) -> JobList:
    return JobList(jobs=tuple(job.info() for job in models.queue.jobs()))


async def _profile() -> Profile:
    """What is known of the machine, asked of a process of its own."""
    async with contextlib.aclosing(asked(AskProbe(measure=False))) as events:
        async for event in events:
            if isinstance(event, Probed):
                return event.profile
    raise SurveyEnded(exit_status=0)


def _loaded(context: Context) -> set[Path]:
    """The files that the loaded model is read from."""
    model = context.engine.model
    if model is None:
        return set()
    files = {model.path, *model.path.parent.glob(f"{_stem(model.path)}*.gguf")}
    if model.prefiller is not None:
        folder = model.prefiller if model.prefiller.is_dir() else None
        files |= set(folder.glob("*.gguf")) if folder else {model.prefiller}
    return files


def _stem(path: Path) -> str:
    """What all parts of a split model begin with."""
    return path.stem.rpartition("-of-")[0].rpartition("-")[0] or path.stem


def _path(field: str, text: str) -> Path:
    """A client's own folder means nothing here, so paths are whole ones. Raises BadRequest."""
    try:
        path = Path(text).expanduser()
    except RuntimeError:
        path = Path(text)
    if "\0" in text or not path.is_absolute():
        raise BadRequest(field=field, problem="it must be an absolute path")
    return path
