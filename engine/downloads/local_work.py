"""Carries out the queue's jobs that need no network: build, verify, import, export, move."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from engine.api.models import Origin
from engine.downloads.build_child import build_in_child
from engine.downloads.fetching import Meter
from engine.downloads.jobs import AnyWork, Build, Export, Import, Move, Verify
from engine.library import changes
from engine.library.library import Library
from engine.library.verify import verify

T = TypeVar("T")


async def carry_out(
    work: AnyWork, library: Library, meter: Meter, remember_folder: Callable[[Path], None]
) -> str | None:
    """Gives the path of what was made. Raises what went wrong; nothing half-done is left."""

    def report(done: int, total: int) -> None:
        meter.received(done - meter.done)
        meter.done, meter.total = done, total

    if isinstance(work, Build):
        built = await build_in_child(work.decoder, work.out, work.source, report)
        origin = Origin(way="build", source=str(work.source or work.decoder))
        library.origins.put_present(built, origin)
        return str(built)
    if isinstance(work, Verify):
        entry = await asyncio.to_thread(library.find, work.entry)
        await _in_thread(lambda stop: verify(library, entry, report, stop))
        return str(entry.path)
    if isinstance(work, Import):
        path = await _in_thread(
            lambda stop: changes.bring_in(library, work.path, work.way, report, stop)
        )
        return str(path)
    if isinstance(work, Export):
        entry = await asyncio.to_thread(library.find, work.entry)
        paths = await _in_thread(lambda stop: changes.copy_out(entry, work.folder, report, stop))
        return str(paths[0])
    assert isinstance(work, Move)
    moved = await _in_thread(
        lambda stop: changes.move_library(library, work.folder, remember_folder, report, stop)
    )
    return str(moved)


async def _in_thread(run: Callable[[threading.Event], T]) -> T:
    """Runs it in a thread; cancelling sets its event and waits until it has cleaned up."""
    stop = threading.Event()
    running = asyncio.ensure_future(asyncio.to_thread(run, stop))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([running])
        if not running.cancelled():
            running.exception()
        raise
