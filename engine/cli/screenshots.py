"""`twofold screenshots`: pictures of the window, to look at before a change is called done."""

from __future__ import annotations

from typing import Annotated

import typer

from engine.cli.app import run_module

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def screenshots(
    out: Annotated[str, typer.Argument(help="The folder for the pictures.")],
    scenes: Annotated[list[str] | None, typer.Argument(help="Only these states.")] = None,
) -> None:
    """Draw every page and state in both themes and languages, at 100 and 200%."""
    run_module("app.screenshots", out, *(scenes or ()))
