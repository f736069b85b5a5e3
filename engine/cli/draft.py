"""The commands that convert drafters, and check which model they belong to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from engine.drafts.convert import convert_draft
from engine.drafts.pairing import check_draft, open_draft, require_draft
from engine.gguf.splits import open_model

app = typer.Typer(
    help="Convert a drafter to GGUF, or check which model it belongs to.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


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
    as_json: Json = False,
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


@app.command()
def check(
    draft: Annotated[Path, typer.Argument(metavar="DRAFT.gguf", help="The drafter.")],
    model: Annotated[Path, typer.Argument(metavar="MODEL.gguf", help="The model.")],
    as_json: Json = False,
) -> None:
    """Say whether a drafter can draft for a model; exit with 1 if it cannot."""
    opened, target = open_draft(draft), open_model(model)
    if not as_json:
        pairing = require_draft(opened, target)
        print(f"{pairing.verdict.value.replace('_', ' ')}: {'; '.join(pairing.reasons)}")
        return
    pairing = check_draft(opened, target)
    facts = {
        "verdict": pairing.verdict.value,
        "reasons": pairing.reasons,
        "fits": pairing.fits,
        "method": opened.method.value,
        "bytes": opened.nbytes,
        "cache_bytes_per_token": opened.cache_bytes(1),
    }
    print(json.dumps(facts))
    if not pairing.fits:
        raise typer.Exit(1)
