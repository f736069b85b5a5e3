"""The root of the command line: names the commands and loads only the one that is called."""

from __future__ import annotations

import importlib
import sys
from typing import Annotated, Any

import typer
import typer.core
import typer.main

from engine.errors import TwofoldError
from engine.program import is_packaged

# Name, and the line that `--help` shows. Each lives in `engine.cli.<name>` as a Typer `app`.
COMMANDS = {
    "app": "Open the window.",
    "demo": "Read a long document with a prefiller, answer with the decoder, compare the paths.",
    "chat": "Chat with a model in the terminal.",
    "serve": "Run the engine as a server for OpenAI's clients, on this machine.",
    "models": "Find, download, verify, import, move and remove models.",
    "prefiller": "Build, describe or check a prefiller.",
    "draft": "Convert a drafter, which guesses a model's next tokens, or check its pairing.",
    "plan": "Plan a model's memory, here or on another machine, and predict its times.",
    "memory": "Say exactly what a model takes on each device, before anything is allocated.",
    "probe": "Find out what this machine is and how fast: devices, memory, disks.",
    "backend": "Build, install, list and remove GPU backends.",
    "bench": "Measure time to first token, the disk, or made-up models.",
    "screenshots": "Draw the window's pages and states as pictures.",
    "doctor": "Check this machine, the library and the folders.",
}


class LazyGroup(typer.core.TyperGroup):
    """Lists commands without importing them, so that `--help` is instant."""

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        for name, help_line in COMMANDS.items():
            self.commands[name] = typer.core.TyperCommand(name, help=help_line)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        if name in COMMANDS:
            command = typer.main.get_command(importlib.import_module(f"engine.cli.{name}").app)
            command.name = name
        return name, command, rest


app = typer.Typer(
    cls=LazyGroup,
    name="twofold",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    epilog=None
    if is_packaged()
    else "./twofold test sets up the developers' tools and runs every check.",
)


def _show_version(wanted: bool) -> None:
    if not wanted:
        return
    from importlib.metadata import version

    from engine.native import native, pinned_version

    commit = native().library_commit()
    print(f"Twofold {version('twofold')} (llama-cpp-python {pinned_version()}, llama.cpp {commit})")
    raise typer.Exit


@app.callback()
def _root(  # pyright: ignore[reportUnusedFunction]
    _version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Say which version this is, and of which library.",
            is_eager=True,
            callback=_show_version,
        ),
    ] = False,
) -> None:
    """Chat with a large local model: one set of weights reads the prompt, another answers."""


def main() -> None:
    """Runs the command line; an expected failure prints its sentence and exits with 1."""
    try:
        app(prog_name="twofold")
    except TwofoldError as error:
        from engine.words import sentence

        print(sentence(error), file=sys.stderr)
        sys.exit(1)
