"""The commands that build, describe and check prefillers."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

from engine.chat.cancellation import Cancellation
from engine.gguf.splits import open_model, part_paths
from engine.prefiller.build import ReportProgress, build_prefiller
from engine.prefiller.errors import Cancelled
from engine.prefiller.formats import Prefiller, open_prefiller
from engine.prefiller.measure import Measurement, built_in_tokens, measure
from engine.prefiller.pairing import check_pairing
from engine.runtime.loaded_model import LoadedModel
from engine.runtime.owner import OwnerThread

app = typer.Typer(
    help="Build, describe or check a prefiller.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Model = Annotated[Path, typer.Argument(metavar="MODEL.gguf", help="The decoder.")]
File = Annotated[Path, typer.Argument(metavar="PREFILLER", help="A file, or a folder of parts.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@app.command()
def build(
    model: Model,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Default: MODEL.prefiller.gguf beside the model."),
    ] = None,
    source: Annotated[
        Path | None, typer.Option(help="A better file of the same model, such as its BF16.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing output.")] = False,
    as_json: Json = False,
) -> None:
    """Build a prefiller for a decoder: round its blocks' linear weights to NVFP4."""
    out = out or default_output(model)
    try:
        with _progress_bar("building", DownloadColumn(), TransferSpeedColumn()) as report:
            prefiller = build_prefiller(model, out, source, report, overwrite=force)
    except KeyboardInterrupt as stop:
        raise Cancelled(path=str(out)) from stop
    if as_json:
        print(json.dumps(_facts(prefiller)))
    else:
        print(prefiller.path)


@app.command()
def info(prefiller: File, as_json: Json = False) -> None:
    """Say what a prefiller is: its layout, its making, its decoder, its size."""
    facts = _facts(open_prefiller(prefiller))
    if as_json:
        print(json.dumps(facts))
        return
    table = Table(box=None, show_header=False)
    table.add_column()
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name.replace("_", " "), "not given" if value is None else str(value))
    Console().print(table)


@app.command()
def check(
    prefiller: File,
    model: Model,
    by_measuring: Annotated[
        bool,
        typer.Option(
            "--measure", help="Also measure how certain the decoder is after each one's reading."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Say whether a prefiller belongs to a decoder; exit with 1 if it does not or if unknown."""
    pairing = check_pairing(open_prefiller(prefiller), open_model(model))
    # What does not fit cannot be measured either.
    measured = _measure(prefiller, model) if by_measuring and pairing.fits else None
    if as_json:
        facts: dict[str, Any] = {
            "verdict": pairing.verdict,
            "reasons": pairing.reasons,
            "fits": pairing.fits,
        }
        if measured:
            facts["measured"] = {**dataclasses.asdict(measured), "worse": measured.worse}
        print(json.dumps(facts))
    else:
        print(f"{pairing.verdict.replace('_', ' ')}: {'; '.join(pairing.reasons)}")
        if measured:
            print(_in_words(measured))
    if not pairing.matched or (measured and measured.worse):
        raise typer.Exit(1)


def _measure(prefiller: Path, model: Path) -> Measurement:
    cancellation = Cancellation()

    def run(report: ReportProgress) -> Measurement:
        loaded = LoadedModel(
            model,
            prefiller=prefiller,
            force_pairing=True,
            on_load=lambda _: not cancellation.cancelled,
        )
        try:
            return measure(
                loaded, built_in_tokens(loaded), progress=report, cancellation=cancellation
            )
        finally:
            loaded.close()

    with _progress_bar("measuring", MofNCompleteColumn()) as report, OwnerThread() as owner:
        running = owner.submit(run, report)
        try:
            return running.result()
        except KeyboardInterrupt:
            cancellation.cancel()
            return running.result()


def _in_words(measured: Measurement) -> str:
    verdict = (
        "The prefiller makes the decoder clearly less certain: it does not belong to it."
        if measured.worse
        else "The prefiller does not make the decoder less certain."
    )
    return (
        f"After reading {measured.prompt_tokens} tokens, the next {measured.tokens} cost "
        f"{measured.prefiller:.3f} nats each with the prefiller and {measured.decoder:.3f} "
        f"without (difference {measured.difference:+.3f}, error {measured.error:.3f}). {verdict}"
    )


def default_output(model: Path) -> Path:
    """`<model's name>.prefiller.gguf` beside the model; parts of a split one share a name."""
    first = part_paths(model)[0]
    stem = first.stem.removesuffix(f"-00001-of-{len(part_paths(model)):05d}")
    return model.with_name(f"{stem}.prefiller.gguf")


def _facts(prefiller: Prefiller) -> dict[str, Any]:
    origin = prefiller.origin
    return {
        "path": str(prefiller.path),
        "layout": prefiller.layout,
        "architecture": prefiller.architecture,
        "blocks": len({tensor.block for tensor in prefiller.tensors}),
        "tensors": len(prefiller.tensors),
        "bytes": prefiller.nbytes,
        "files": len(prefiller.files),
        "made_by": origin.tool,
        "method": origin.method,
        "source": origin.source_name,
        "source_hash": origin.source_hash,
        "decoder": origin.decoder_name,
        "decoder_quantisation": origin.decoder_quantisation,
        "decoder_hash": prefiller.decoder_hash,
    }


@contextmanager
def _progress_bar(name: str, *amounts: ProgressColumn) -> Generator[ReportProgress]:
    """Amounts and an estimate on stderr; nothing where that is no terminal."""
    console = Console(stderr=True)
    with Progress(
        TextColumn(name),
        BarColumn(),
        *amounts,
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    ) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
