"""Builds a prefiller in a process of its own, so that computing never holds up who asked.

The child prints its progress as lines of JSON. It stops, and leaves nothing, when its standard
input ends: on cancelling, and if its parent dies.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import threading
from pathlib import Path

from engine.downloads.errors import BuildFailed
from engine.errors import TwofoldError
from engine.library.copying import Report
from engine.library.groups import RememberedProblem

COMMAND = (sys.executable, "-m", "engine.downloads.build_child")
_LINE_LIMIT = 1 << 20


async def build_in_child(decoder: Path, out: Path, source: Path | None, report: Report) -> Path:
    """Raises what building raises, or BuildFailed if the child dies."""
    out.parent.mkdir(parents=True, exist_ok=True)
    was_there = out.exists()
    child = await asyncio.create_subprocess_exec(
        *COMMAND,
        str(decoder),
        str(out),
        *([str(source)] if source else []),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=_LINE_LIMIT,
    )
    assert child.stdout is not None and child.stdin is not None and child.stderr is not None
    errors = asyncio.ensure_future(child.stderr.read())
    failure: TwofoldError | None = None
    try:
        async for line in child.stdout:
            told = json.loads(line)
            if "done" in told:
                report(told["done"], told["total"])
            elif "code" in told:
                failure = RememberedProblem(**told["data"])
                failure.code = told["code"]  # type: ignore[misc]  # as for NativeError
        await child.wait()
    except asyncio.CancelledError:
        child.stdin.close()
        await child.wait()
        if not was_there:  # it may just have become whole
            out.unlink(missing_ok=True)
        raise
    finally:
        child.stdin.close()
        await child.wait()
        last = (await errors).decode(errors="replace").strip().splitlines()[-1:]
        with contextlib.suppress(OSError):
            await child.stdin.wait_closed()
    if failure is not None:
        raise failure
    if child.returncode != 0 or not out.is_file():
        reason = last[0] if last else f"its process ended with {child.returncode}"
        raise BuildFailed(reason=reason[:500])
    return out


def _main() -> None:
    from engine.prefiller.build import build_prefiller

    decoder, out, *source = map(Path, sys.argv[1:])
    cancel = threading.Event()

    def watch() -> None:
        # Not through sys.stdin, whose lock would be held when the program ends.
        while os.read(0, 4096):
            pass
        cancel.set()

    threading.Thread(target=watch, daemon=True).start()
    percent = -1

    def report(done: int, total: int) -> None:
        nonlocal percent
        now = 200 * done // max(total, 1)
        if now != percent:
            percent = now
            print(json.dumps({"done": done, "total": total}), flush=True)

    try:
        build_prefiller(decoder, out, source[0] if source else None, report, cancel)
    except TwofoldError as error:
        print(json.dumps({"code": error.code, "data": error.data}), flush=True)


if __name__ == "__main__":
    _main()
