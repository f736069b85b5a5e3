"""The application: every route behind the guard, every failure a sentence in OpenAI's shape."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine.errors import TwofoldError
from engine.server.answers import error_response
from engine.server.context import Context
from engine.server.errors import NoSuchRoute, Unexpected, WrongMethod
from engine.server.guard import Guard
from engine.server.routes import ENDPOINTS, Handler

log = logging.getLogger(__name__)


def make_app(context: Context, token: str) -> Starlette:
    """The engine is closed when the application ends."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        yield
        await context.engine.close()

    origins = context.settings.current.server.origins
    app = Starlette(
        routes=[
            Route(endpoint.path, _answering(endpoint.handler), methods=[endpoint.method])
            for endpoint in ENDPOINTS
        ],
        middleware=[
            *([_cors(origins)] if origins else []),
            Middleware(Guard, token=token, settings=lambda: context.settings.current.server),
        ],
        exception_handlers={HTTPException: _on_http_exception},
        lifespan=lifespan,
    )
    app.state.context = context
    app.router.redirect_slashes = False
    return app


def _cors(origins: tuple[str, ...]) -> Middleware:
    """Answers browsers' questions for the pages that the user named."""
    return Middleware(
        CORSMiddleware,
        allow_origins=origins,
        allow_methods=["GET", "POST", "PUT"],
        allow_headers=["authorization", "content-type"],
    )


def _answering(handler: Handler) -> Handler:
    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except TwofoldError as error:
            return error_response(error)
        except Exception as error:
            log.exception("request.failed", extra={"path": request.url.path})
            return error_response(Unexpected(kind=type(error).__name__))

    return answer


async def _on_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.url.path[:200]
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        return error_response(WrongMethod(method=request.method, path=path, allowed=allowed))
    return error_response(NoSuchRoute(path=path))
