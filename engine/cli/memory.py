"""`twofold memory`: what a model takes, exactly, before anything is allocated."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from engine.api.memory import MemoryAccount, PrefillerMemory
from engine.cli.options import Context, Kv, Model, Prefiller
from engine.errors import TwofoldError
from engine.gguf.validate import validated_model
from engine.planner.facts import model_facts
from engine.prefiller.formats import open_prefiller
from engine.probe.memory import exact_memory
from engine.runtime.settings import DEFAULT_CONTEXT

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

MIB = 1 << 20


class AccountNotWritten(TwofoldError):
    """`path` cannot be written: `reason`."""

    code = "memory.not_written"


@app.command()
def memory(
    model: Model,
    prefiller: Prefiller = None,
    ctx: Context = None,
    kv: Kv = "f16",
    micro_batch: Annotated[int, typer.Option(min=32, help="Tokens a pass reads.")] = 512,
    gpu_layers: Annotated[
        int, typer.Option(help="So many of the last layers on the device; -1 for all.")
    ] = 0,
    device: Annotated[
        list[str] | None, typer.Option(help="A device by name; may be given again.")
    ] = None,
    json: Annotated[
        Path | None, typer.Option("--json", help="Also write the account to this file.")
    ] = None,
) -> None:
    """Say what a model's weights, context and compute buffers take on each device."""
    decoder = validated_model(model.expanduser())
    trained = model_facts(decoder).trained_context or DEFAULT_CONTEXT
    context = ctx or min(trained, DEFAULT_CONTEXT)
    account = MemoryAccount(
        model=decoder.path,
        context=context,
        kv_type=kv,
        micro_batch=min(micro_batch, context),
        gpu_layers=gpu_layers,
        buffers=exact_memory(
            decoder, context, kv, micro_batch, gpu_layers=gpu_layers, devices=device or ()
        ),
        prefiller=_prefiller(prefiller.expanduser()) if prefiller else None,
    )
    if json is not None:
        try:
            json.write_text(account.model_dump_json(indent=1), encoding="utf-8")
        except OSError as error:
            raise AccountNotWritten(path=str(json), reason=error.strerror or str(error)) from error
    _show(account)


def _prefiller(path: Path) -> PrefillerMemory:
    opened = open_prefiller(path)
    blocks: defaultdict[int, int] = defaultdict(int)
    for tensor in opened.tensors:
        blocks[tensor.block] += tensor.nbytes
    return PrefillerMemory(resident=opened.nbytes, slot=max(blocks.values(), default=0))


def _show(account: MemoryAccount) -> None:
    console = Console()
    table = Table(box=None)
    table.add_column(f"{account.context:,} tokens, {account.kv_type}")
    for heading in ("weights", "context", "compute", "together"):
        table.add_column(heading, justify="right")
    for part in account.buffers:
        sizes = (part.weights, part.context, part.compute, part.total)
        table.add_row(part.buffer, *(_mib(size) for size in sizes))
    sums = (
        sum(part.weights for part in account.buffers),
        sum(part.context for part in account.buffers),
        sum(part.compute for part in account.buffers),
        sum(part.total for part in account.buffers),
    )
    table.add_row("all", *(_mib(size) for size in sums), style="bold")
    console.print(table)
    if account.prefiller:
        console.print(
            f"The prefiller takes {_mib(account.prefiller.resident)} more along resident. Along "
            f"odp a slot takes {_mib(account.prefiller.slot)}, lent by the decoder's weights."
        )


def _mib(count: int) -> str:
    return f"{count / MIB:,.1f} MiB"
