"""`twofold serve`: the engine as a program of its own, for the window and for OpenAI's clients."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
import uvicorn

from engine import logs
from engine.api.engine import LoadRequest
from engine.errors import TwofoldError
from engine.runtime.settings import LoadSettings
from engine.server.engine import Engine
from engine.server.errors import failure_of
from engine.server.run import is_loopback, listen, new_token, run
from engine.server.twofold_routes import with_defaults
from engine.settings_store import SettingsStore

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="The address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="The port; 0 takes a free one.")] = None,
    model: Annotated[
        Path | None,
        typer.Option("-m", "--model", metavar="MODEL.gguf", help="Load this model at once."),
    ] = None,
    prefiller: Annotated[
        Path | None, typer.Option(metavar="FILE-OR-FOLDER", help="NVFP4 weights that read prompts.")
    ] = None,
    draft: Annotated[
        Path | None,
        typer.Option(metavar="FILE.gguf", help="A smaller model of the same tokens, or EAGLE-3."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting, as server.queue=4."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--settings", metavar="FILE", help="Another settings file.")
    ] = None,
    until_stdin_ends: Annotated[
        bool,
        typer.Option(help="End when stdin does, so that no engine outlives the program it is for."),
    ] = False,
) -> None:
    """Serve OpenAI's protocol and Twofold's own on this machine.

    Prints one line of JSON when it listens: url, host, port, token, pid.
    """
    flags = dict(_name_and_value(setting) for setting in settings or ())
    if host is not None:
        flags["server.host"] = host
    if port is not None:
        flags["server.port"] = str(port)
    store = SettingsStore(file=file, flags=flags)
    logs.set_up(store.current.log)
    sock = listen(store.current.server)
    token = store.current.server.token or new_token()
    first = _first_load(model, prefiller, draft, store)
    loading: list[asyncio.Task[None]] = []

    def on_listening(server: uvicorn.Server, engine: Engine) -> None:
        address, number = sock.getsockname()[:2]
        shown = f"[{address}]" if ":" in address else address
        where = {
            "url": f"http://{shown}:{number}",
            "host": address,
            "port": number,
            "token": token,
            "pid": os.getpid(),
            "version": version("twofold"),
        }
        print(json.dumps(where), flush=True)
        if not is_loopback(store.current.server.host):
            print(
                f"Other machines can reach this server at port {number}. Whoever has the token can "
                "use it, and nothing that is sent is encrypted.",
                file=sys.stderr,
            )
        if until_stdin_ends:
            threading.Thread(target=_end_with_stdin, args=(server,), daemon=True).start()
        if first is not None:
            loading.append(asyncio.create_task(_load(engine, first)))

    run(store, sock, token, on_listening=on_listening)


def _first_load(
    model: Path | None, prefiller: Path | None, draft: Path | None, store: SettingsStore
) -> LoadRequest | None:
    if model is None:
        return None
    return LoadRequest(
        model=str(model.absolute()),
        prefiller=str(prefiller.absolute()) if prefiller else None,
        draft=str(draft.absolute()) if draft else None,
        settings=with_defaults(LoadSettings(), store.current.load),
    )


async def _load(engine: Engine, request: LoadRequest) -> None:
    """The server stays up where this fails: a client may load another model."""
    try:
        loaded = await engine.load(request)
    except TwofoldError as error:
        print(failure_of(error).sentence, file=sys.stderr)
    else:
        print(f"Loaded {loaded.id}.", file=sys.stderr)


def _name_and_value(setting: str) -> tuple[str, str]:
    name, equals, value = setting.partition("=")
    if not equals:
        raise typer.BadParameter(f"{setting} is not NAME=VALUE.", param_hint="--set")
    return name.strip(), value.strip()


def _end_with_stdin(server: uvicorn.Server) -> None:
    while sys.stdin.buffer.read(4096):
        pass
    server.should_exit = True
