"""`twofold probe`: what this machine is, and how fast."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from engine.api.hardware import Device, Disk, Profile
from engine.api.sentences import fill, memory, size
from engine.chat.cancellation import Cancellation
from engine.probe.disks import LEAST_BYTES
from engine.probe.probe import probe as probe_machine
from engine.probe.words import DISK_SENTENCES

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def probe(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the profile as JSON, for `plan`.")
    ] = False,
    folder: Annotated[
        list[Path] | None,
        typer.Option(help="A folder with models; its disk is measured. May be repeated."),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Measure what was measured before, too.")
    ] = False,
) -> None:
    """Find out what this machine is and how fast: devices, memory, disks, computing."""
    cancellation = Cancellation()
    before = signal.signal(signal.SIGINT, lambda _number, _frame: cancellation.cancel())
    try:
        with _Steps() as steps:
            found = probe_machine(
                folder, again=again, on_step=steps.show, cancellation=cancellation
            )
    finally:
        signal.signal(signal.SIGINT, before)
    if as_json:
        print(found.model_dump_json(indent=2, exclude_none=True))
    else:
        show(found, Console())


class _Steps:
    """One line on stderr for what is being measured; nothing where that is no terminal."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("Measuring {task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> _Steps:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, what: str, share: float | None, rate: str) -> None:
        if what not in self._tasks:
            total = None if share is None else 1.0
            self._tasks[what] = self._progress.add_task(escape(what), total=total, rate="")
        self._progress.update(self._tasks[what], completed=share or 0.0, rate=rate)


def show(found: Profile, console: Console) -> None:
    """Prints the profile as a table, with what deserves attention after it."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for device in found.devices:
        table.add_row(f"Device {device.name}", _device(device))
    if not found.devices:
        table.add_row("Device", "none: the CPU computes")
    host = found.host
    table.add_row("CPU", f"{host.cpu or 'unknown'}, {host.cores} cores")
    table.add_row("CPU features", " ".join(host.cpu_features))
    table.add_row("Memory", f"{memory(host.memory_free)} of {memory(host.memory_total)} free")
    for disks in _by_disk(found.disks):
        table.add_row("Disk", _disk(disks))
    rates = found.rates
    if rates.products_tflops:
        products = (f"{name} {rate:.3g}" for name, rate in rates.products_tflops.items())
        table.add_row("Reading prompts, TFLOP/s", ", ".join(products))
    if rates.decode_gbps:
        decode = (f"{name} {rate:.3g}" for name, rate in rates.decode_gbps.items())
        table.add_row("Writing answers, GB/s", ", ".join(decode))
    console.print(table, highlight=False, markup=False)
    for disks in _by_disk(found.disks):
        for code in dict.fromkeys(code for disk in disks for code in disk.warnings):
            sentence = disk_sentence(code, disks[0])
            console.print(sentence, style="yellow", markup=False, highlight=False, soft_wrap=True)


def disk_sentence(code: str, disk: Disk) -> str:
    """A disk's warning in words, with its code."""
    template = DISK_SENTENCES.get(code, "{path}")
    facts = {"path": disk.path, "gbps": disk.read_gbps or 0.0, "least_mib": LEAST_BYTES >> 20}
    return f"{fill(template, facts)} [{code}]"


def _device(device: Device) -> str:
    facts = [
        device.description or device.backend,
        f"{memory(device.memory_free)} of {memory(device.memory_total)} free",
    ]
    if device.unified:
        facts.append("shares the host's memory")
    if device.used_by_others:
        facts.append(f"{memory(device.used_by_others)} used by other programs")
    if device.compute_capability:
        facts.append(f"compute capability {device.compute_capability}")
    if device.driver:
        facts.append(f"driver {device.driver}")
    if device.link:
        facts.append(f"PCIe {device.link.generation}.0 x{device.link.width}")
    if device.temperature_c is not None:
        facts.append(f"{device.temperature_c} °C")
    return ", ".join(facts)


def _by_disk(folders: Sequence[Disk]) -> list[list[Disk]]:
    """The folders of each disk together."""
    found: dict[tuple[str | None, ...], list[Disk]] = {}
    for folder in folders:
        key = (folder.device or folder.path, folder.file_system, folder.measured_at)
        found.setdefault(key, []).append(folder)
    return list(found.values())


def _disk(folders: Sequence[Disk]) -> str:
    disk = folders[0]
    kind = "of unknown kind" if disk.kind == "unknown" else disk.kind
    facts = [f"{', '.join(folder.path for folder in folders)}: {kind}"]
    if disk.file_system:
        facts.append(f"{disk.file_system} on {disk.device}")
    if disk.free is not None:
        facts.append(f"{size(disk.free)} free")
    if disk.read_gbps is not None:
        facts.append(f"{disk.read_gbps:.2f} GB/s, measured {(disk.measured_at or '')[:10]}")
    else:
        facts.append("not measured")
    return ", ".join(facts)
