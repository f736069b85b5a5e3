"""`twofold demo`: one question about one long document, read along each path and compared."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from engine.cli.interrupts import Interrupts
from engine.cli.turns import run_turn
from engine.demo import DEMO_PATHS, Demonstration, DemoResult, PathResult
from engine.runtime.owner import OwnerThread

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def demo(
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write the figures here.")
    ] = None,
) -> None:
    """Read a long document with a prefiller, answer with the decoder, compare the paths."""
    console = Console(stderr=True)
    with Interrupts() as interrupts, OwnerThread() as owner:
        with console.status("Preparing the model and its prefiller"):
            demonstration = owner.submit(Demonstration).result()
        try:
            console.print(
                f"{demonstration.document_tokens:,} tokens of text, then: {demonstration.question}",
                highlight=False,
            )
            results: dict[str, PathResult] = {}
            for path in DEMO_PATHS:
                console.print(f"\n[bold]{path}[/bold]")
                owner.submit(demonstration.prepare, path).result()
                report = run_turn(
                    owner, demonstration.turn(path), console=console, interrupts=interrupts
                )
                results[path] = owner.submit(demonstration.measure, path, report).result()
            result = demonstration.result(results)
        finally:
            owner.submit(demonstration.close).result()
    console.print()
    console.print(_table(result))
    same = "equals" if result.odp_equals_resident else "DIFFERS FROM"
    console.print(f"The answer along odp {same} the answer along resident, to the bit.")
    if json_file is not None:
        json_file.write_text(result.model_dump_json(indent=2) + "\n", encoding="utf-8")
    if not result.odp_equals_resident:
        raise typer.Exit(1)


def _table(result: DemoResult) -> Table:
    table = Table(title=f"{result.prompt_tokens:,} tokens read")
    table.add_column("path")
    for name in (
        "time to first token",
        "prefill tokens/s",
        "decode tokens/s",
        "prefill weights in memory",
        "read from disk",
        "waited for disk",
    ):
        table.add_column(name, justify="right")
    for path, row in result.paths.items():
        table.add_row(
            path,
            f"{row.ttft_s:.2f} s",
            f"{row.prefill_tps:,.0f}",
            f"{row.decode_tps:.1f}",
            f"{row.prefill_weight_bytes / 2**20:.1f} MiB",
            f"{row.bytes_read / 2**20:.1f} MiB",
            f"{row.wait_s:.2f} s",
        )
    return table
