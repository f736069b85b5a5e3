"""Routes about GPU backends: which are installed, and whether each is wanted."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from engine.api.backends import BackendChange, Backends
from engine.backends import store
from engine.server.answers import json_response, read


async def backends(request: Request) -> Response:  # noqa: ARG001  # a handler takes one
    """As the last check found them; nothing is checked or opened here."""
    return json_response(await run_in_threadpool(_listed))


async def change_backend(request: Request) -> Response:
    """An enabled backend is checked when the next model is loaded."""
    wanted = await read(request, BackendChange)
    await run_in_threadpool(store.set_enabled, wanted.name, wanted.enabled)
    return json_response(await run_in_threadpool(_listed))


def _listed() -> Backends:
    return Backends(backends=tuple(backend.info() for backend in store.installed()))
