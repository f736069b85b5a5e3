"""Opens the socket, runs the application on uvicorn, and says where it listens."""

from __future__ import annotations

import asyncio
import ipaddress
import secrets
import socket
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp

from engine.server.app import make_app
from engine.server.context import Context
from engine.server.engine import Engine
from engine.server.errors import CannotListen, PortTaken
from engine.server.lazy_models import LazyModels
from engine.server.protocol import LimitedProtocol
from engine.settings import ServerSettings
from engine.settings_store import SettingsStore

# Streams that go on when the server ends are cut off after this long.
GRACE_S = 3


class Server(uvicorn.Server):
    """Tells when it listens, and ends the engine's work before it waits for its clients."""

    def __init__(
        self, config: uvicorn.Config, *, engine: Engine, on_listening: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._engine = engine
        self._on_listening = on_listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_listening()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._engine.close()
        await super().shutdown(sockets)


def new_token() -> str:
    return secrets.token_urlsafe(32)


def listen(settings: ServerSettings) -> socket.socket:
    """Raises PortTaken or CannotListen."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family)
    except OSError as error:
        facts = {"host": settings.host, "port": settings.port}
        if error.errno in (98, 48, 10048):  # EADDRINUSE on Linux, macOS, Windows
            raise PortTaken(**facts) from error
        raise CannotListen(**facts, reason=error.strerror or str(error)) from error


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def make_engine(store: SettingsStore) -> Engine:
    return Engine(
        queue=lambda: store.current.server.queue,
        idle_s=lambda: store.current.engine.idle_unload_min * 60,
        log_texts=lambda: store.current.log.texts,
    )


async def serve(
    store: SettingsStore,
    sock: socket.socket,
    token: str,
    *,
    on_listening: Callable[[uvicorn.Server, Engine], None],
) -> None:
    """Serves until it is told to end."""
    engine = make_engine(store)
    models = LazyModels(store)
    app: ASGIApp = make_app(Context(engine, store, models), token)
    settings = store.current.server
    config = uvicorn.Config(
        app,
        http=LimitedProtocol.limited(
            header_timeout_s=settings.header_timeout_s, connections=settings.connections
        ),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=int(settings.idle_timeout_s),
        timeout_graceful_shutdown=GRACE_S,
    )
    server = Server(config, engine=engine, on_listening=lambda: on_listening(server, engine))
    models.start()
    try:
        await server.serve([sock])
    finally:
        await asyncio.to_thread(models.close)


def run(
    store: SettingsStore,
    sock: socket.socket,
    token: str,
    *,
    on_listening: Callable[[uvicorn.Server, Engine], None],
) -> None:
    asyncio.run(serve(store, sock, token, on_listening=on_listening))
