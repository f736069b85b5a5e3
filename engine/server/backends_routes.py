"""Routes about GPU backends: which are installed and wanted, bringing them in, checking them."""

from __future__ import annotations

from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from engine.api.backends import BackendChange, BackendFile, BackendName, Backends
from engine.backends import store
from engine.backends.check import checked
from engine.server.answers import json_response, read


async def backends(request: Request) -> Response:  # noqa: ARG001  # a handler takes one
    """As the last check found them; nothing is checked or opened here."""
    return json_response(await run_in_threadpool(_listed))


async def change_backend(request: Request) -> Response:
    """An enabled backend is checked when the next model is loaded."""
    wanted = await read(request, BackendChange)
    await run_in_threadpool(store.set_enabled, wanted.name, wanted.enabled)
    return json_response(await run_in_threadpool(_listed))


async def install_backend(request: Request) -> Response:
    """Copies the file in, then checks it; one that fails its check stays, and is not used."""
    given = await read(request, BackendFile)
    backend = await run_in_threadpool(store.install, Path(given.path))
    return json_response(await run_in_threadpool(_checked, backend))


async def check_backend(request: Request) -> Response:
    """Runs the self-check now, in a process of its own: seconds, a minute for a software driver."""
    wanted = await read(request, BackendName)
    backend = await run_in_threadpool(store.find, wanted.name)
    return json_response(await run_in_threadpool(_checked, backend))


async def remove_backend(request: Request) -> Response:
    """Deletes its file; a model that uses it goes on until it is loaded again."""
    wanted = await read(request, BackendName)
    await run_in_threadpool(store.remove, wanted.name)
    return json_response(await run_in_threadpool(_listed))


def _checked(backend: store.Installed) -> Backends:
    store.set_verdict(backend, checked(backend))
    return _listed()


def _listed() -> Backends:
    return Backends(backends=tuple(backend.info() for backend in store.installed()))
