"""`twofold backend`: GPU backends, add-on files to the library."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from engine.api.backends import BackendInfo, Backends
from engine.backends import store
from engine.backends.check import checked
from engine.backends.errors import BackendBuildElsewhere
from engine.backends.registration import fit
from engine.backends.words import reason
from engine.program import called

app = typer.Typer(no_args_is_help=True, help="Build, install, list and remove GPU backends.")

Name = Annotated[str, typer.Argument(help="vulkan, cuda or rpc.", show_default=False)]
GIB = 1 << 30


@app.command()
def build(
    name: Name,
    architectures: Annotated[
        str | None,
        typer.Option(help="CUDA only: the cards to build for, as CMake names them."),
    ] = None,
) -> None:
    """Build a backend from the pinned sources, and install it. Can be interrupted, and goes on."""
    # In a checkout the set-up has done it before this program starts.
    del architectures
    raise BackendBuildElsewhere(name=name)


@app.command("list")
def list_installed(
    json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False,
) -> None:
    """Show the installed backends, checking those that were not checked since the last start."""
    for backend in store.installed():
        if backend.state.enabled:
            fit(backend)
    infos = [backend.info() for backend in store.installed()]
    if json:
        print(Backends(backends=tuple(infos)).model_dump_json(indent=1))
        return
    if not infos:
        print(
            called("No backend is installed; models run on the CPU. ./twofold backend build vulkan")
        )
        return
    show(infos)


@app.command()
def install(
    file: Annotated[Path, typer.Argument(help="A libggml file that backend build made.")],
) -> None:
    """Install a backend's file and check it. It runs with your rights: trust where it is from."""
    backend = store.install(file.expanduser().absolute())
    _check(backend)


@app.command()
def remove(name: Name) -> None:
    """Remove an installed backend."""
    store.remove(name)
    print(f"{name} is removed.")


@app.command()
def check(name: Name) -> None:
    """Check a backend now, in a process of its own."""
    _check(store.find(name))


@app.command()
def enable(name: Name) -> None:
    """Use a backend again."""
    _check(store.set_enabled(name, True))


@app.command()
def disable(name: Name) -> None:
    """Leave a backend installed but do not use it."""
    show([store.set_enabled(name, False).info()])


def _check(backend: store.Installed) -> None:
    """Shows what was found; exits with 1 if the backend is not fit."""
    info = store.set_verdict(backend, checked(backend)).info()
    show([info])
    if info.state == "unfit":
        raise typer.Exit(1)


def show(infos: Sequence[BackendInfo]) -> None:
    """Prints the backends as a table, and why those are not used that are not."""
    console = Console(soft_wrap=True)
    table = Table(box=None)
    for column in ("Backend", "State", "Device", "Free memory", "Kernels", "Largest error"):
        table.add_column(column)
    for info in infos:
        if not info.devices:
            table.add_row(info.name, info.state)
        for device in info.devices:
            free = f"{device.memory_free / GIB:.1f} of {device.memory_total / GIB:.1f} GiB"
            error = f"{device.error:.2%}"
            title = f"{device.name}: {device.description}"
            table.add_row(info.name, info.state, title, free, str(device.kernels), error)
    console.print(table)
    for info in infos:
        if why := reason(info):
            console.print(why, markup=False, highlight=False, style="yellow")
