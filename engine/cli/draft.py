"""The command that converts drafters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from engine.drafts.convert import convert_draft

app = typer.Typer(
    help="Convert a drafter to GGUF.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _group() -> None:  # pyright: ignore[reportUnusedFunction]
    """With one command alone, its name would be left out."""


@app.command()
def convert(
    checkpoint: Annotated[
        Path,
        typer.Argument(
            metavar="IN", help="A .safetensors file with config.json beside it, or both's folder."
        ),
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The GGUF file to write.")],
    target: Annotated[
        Path | None,
        typer.Option(
            metavar="MODEL.gguf", help="The model it drafts for; EAGLE-3 and DFlash need it."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing output.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Convert a published Medusa, EAGLE-1, EAGLE-3 or DFlash checkpoint."""
    done = convert_draft(checkpoint, out, target, overwrite=force)
    if as_json:
        facts = {
            "path": str(done.path),
            "method": done.method.value,
            "tensors": done.tensors,
            "bytes": done.nbytes,
            "target": done.target,
        }
        print(json.dumps(facts))
    else:
        print(done.path)
