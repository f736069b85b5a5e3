"""Routes about the machine: plans, what is known of it, measurements, and the doctor's report."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response

from engine.api.survey import BundleQuery, Examined, Planned, PlanQuery, Probed, ProbeQuery
from engine.errors import TwofoldError
from engine.planner.rates import CPU
from engine.server.answers import error_event, json_response, read
from engine.server.context import Context, context_of
from engine.server.files import require_present
from engine.server.sse import EventStream
from engine.survey.ask import SurveyEnded, asked
from engine.survey.questions import AskDoctor, AskPlan, AskProbe

A = TypeVar("A", Planned, Probed, Examined)


async def plan(request: Request) -> Response:
    """The model in memory counts as gone: loading another, or the same anew, replaces it."""
    context = context_of(request)
    query = await read(request, PlanQuery)
    for name in (query.model, query.prefiller):
        require_present(name)
    question = AskPlan(
        query=query,
        defaults=context.settings.current.load,
        replaced=await _replaced(context),
    )
    return json_response(await _answer(question, Planned))


async def known(request: Request) -> Response:  # noqa: ARG001  # a handler takes one
    """What is known of the machine without measuring anything."""
    return json_response(await _answer(AskProbe(measure=False), Probed))


async def probe(request: Request) -> Response:
    """Measures, and streams how far it is. A client that goes stops it."""
    query = await read(request, ProbeQuery)
    require_present(query.folder)
    return EventStream(_probing(AskProbe(query=query)))


async def doctor(request: Request) -> Response:  # noqa: ARG001  # a handler takes one
    return json_response(await _answer(AskDoctor(), Examined))


async def bundle(request: Request) -> Response:
    """Writes report, settings and logs, without what is private, into one archive."""
    query = await read(request, BundleQuery)
    require_present(str(Path(query.path).parent))
    return json_response(await _answer(AskDoctor(bundle=query.path), Examined))


async def _probing(question: AskProbe) -> AsyncGenerator[str]:
    try:
        async with contextlib.aclosing(asked(question)) as events:
            async for event in events:
                yield event.model_dump_json()
    except TwofoldError as error:
        yield error_event(error)
    yield "[DONE]"


async def _answer(question: AskPlan | AskProbe | AskDoctor, kind: type[A]) -> A:
    async with contextlib.aclosing(asked(question)) as events:
        async for event in events:
            if isinstance(event, kind):
                return event
    raise SurveyEnded(exit_status=0)


async def _replaced(context: Context) -> dict[str, int]:
    """Bytes that the loaded model would give back, by device. Weights that are mapped from their
    file count as far as they are in memory."""
    report = await context.engine.memory()
    use = report.model
    if use is None:
        return {}
    held = use.weights + use.context + use.compute + use.resident + use.slots_allocated
    model = context.engine.model
    devices = model.device_bytes if model is not None else {}
    return {CPU: min(held, report.worker_resident), **devices}
