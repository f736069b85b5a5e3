"""`twofold app`: the window. It is a program of its own, so that the engine never imports Qt."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import typer

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def window() -> None:
    """Open the window."""
    run_module("app")


def run_module(name: str, *arguments: str) -> NoReturn:
    """Puts the module in this process's place."""
    command = [sys.executable, "-P", "-m", name, *arguments]
    os.execv(command[0], command)
