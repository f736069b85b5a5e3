"""`twofold doctor`: is all well on this machine?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from engine.api.sentences import memory, size
from engine.backends import store
from engine.backends.check import checked
from engine.cli.backend import show as show_backends
from engine.cli.probe import show as show_profile
from engine.doctor.bundle import default_name, write_bundle
from engine.doctor.report import Report, report
from engine.kernels.check import Verdict
from engine.probe.probe import probe
from engine.program import called

app = typer.Typer()


@app.command()
def doctor(
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    bundle: Annotated[
        bool,
        typer.Option("--bundle", help="Pack the report, settings and logs, private text left out."),
    ] = False,
    gpu: Annotated[
        bool,
        typer.Option("--gpu", help="Check the GPU backends anew, and measure the devices."),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE.zip", help="Where the bundle goes."),
    ] = None,
) -> None:
    """Check this machine, the library and the folders. Exits with 1 if something is wrong."""
    console = Console(stderr=True)
    if gpu:
        raise typer.Exit(0 if _gpu(console) else 1)
    with console.status("Running every kernel of the model library once..."):
        found = report()
    if bundle or output is not None:
        print(write_bundle(output or default_name(), found))
        console.print("Private text was left out; look through it before you send it.")
        return
    if json:
        print(found.model_dump_json(indent=2))
    else:
        show(found, Console())
    raise typer.Exit(0 if found.healthy else 1)


def _gpu(console: Console) -> bool:
    """Whether a device other than the CPU can be used; it is then measured, and the disks too."""
    wanted = [backend for backend in store.installed() if backend.state.enabled]
    if not wanted:
        print(
            called(
                "No GPU backend is installed, so models run on the CPU: ./twofold backend build "
                "vulkan makes one for any card."
            )
        )
        return False
    with console.status("Checking the GPU backends..."):
        infos = [store.set_verdict(backend, checked(backend)).info() for backend in wanted]
    show_backends(infos)
    if not any(info.state == "ready" for info in infos):
        return False
    with console.status("Measuring..."):
        profile = probe(again=True)
    show_profile(profile, Console())
    return bool(profile.devices)


def _verdict(one: Verdict) -> str:
    return f"{one.kernel} (unfit: {one.reason})" if one.reason else one.kernel


def show(found: Report, console: Console) -> None:
    """Prints the report as a table, with the verdict last."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    machine, library = found.machine, found.library
    table.add_row("Twofold", found.twofold)
    table.add_row("Python", f"{found.python} ({found.python_path})")
    table.add_row("System", machine.system)
    table.add_row("CPU", f"{machine.cpu}, {machine.cores} cores")
    table.add_row("CPU features", " ".join(machine.features))
    table.add_row(
        "Memory",
        f"{memory(machine.memory_available)} of {memory(machine.memory_total)} available",
    )
    table.add_row(
        "Library", f"llama-cpp-python {library.version}, llama.cpp {library.commit or 'unknown'}"
    )
    if library.build:
        build = library.build
        table.add_row("Library build", f"{build.name}, {build.compiler}")
        table.add_row("Build flags", f"{build.cxxflags} {build.cmake_args}".strip())
    if library.cpu_variant:
        table.add_row("CPU variant", library.cpu_variant)
    if library.system_info:
        table.add_row("Library says", library.system_info.strip(" |"))
    for buffer in dict.fromkeys(kernel.buffer for kernel in library.kernels):
        types = [kernel.type for kernel in library.kernels if kernel.buffer == buffer]
        table.add_row(f"Kernels ({buffer})", " ".join(types))
    if found.own_kernels:
        table.add_row("Own kernels", ", ".join(_verdict(one) for one in found.own_kernels))
    for device in found.devices:
        total = memory(device.memory_total)
        table.add_row(f"Device {device.name}", f"{device.description} ({device.type}), {total}")
    for folder in found.folders:
        free = f"{size(folder.free_bytes)} free"
        table.add_row(f"Folder {folder.name}", f"{folder.path}, {free}")
    console.print(table, highlight=False, markup=False)
    for problem in found.problems:
        console.print(f"{problem.sentence} [{problem.code}]", markup=False, style="red")
    if found.healthy:
        worst = max(kernel.error for kernel in library.kernels)
        console.print(
            f"All is well: {len(library.kernels)} kernels ran in a process of their own, "
            f"largest error {worst:.2%}.",
            style="green",
            highlight=False,
        )
