"""Decides what a command needs, does what is missing, and hands over to the command."""

from __future__ import annotations

import errno
import os
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from setup import backends, checks, demo_model, doctest_header, environment, extension, library
from setup.compiler import find_compiler
from setup.context import Context, cache_folder
from setup.locks import locked
from setup.words import SetupError

ROOT = Path(__file__).resolve().parents[1]
STOPPED = 130
# What is opened where no command is given, as by a double click.
WINDOW = "app"


@dataclass(frozen=True)
class Needs:
    """What has to be there before a command can run."""

    engine: bool = True
    demo_model: bool = False
    developing: bool = False


def needs_of(arguments: Sequence[str]) -> Needs:
    """Help needs only the Python packages; what offers or uses the demo model needs that, too."""
    command = arguments[0] if arguments else WINDOW
    if command == "test":
        return Needs(demo_model=True, developing=True)
    if "--help" in (command, *arguments):
        return Needs(engine=False)
    with_model = any(re.match(r"-m|--model\b", part) for part in arguments)
    return Needs(demo_model=command in ("demo", WINDOW) or (command == "chat" and not with_model))


def main(arguments: Sequence[str]) -> int:
    """Sets up for the command and runs it; the exit code is the command's own."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    context = Context(ROOT, cache_folder(os.environ))
    arguments = arguments or [WINDOW]
    if arguments[:1] == ["test"]:
        refused = checks.refuse(arguments[1:])
        if refused is not None:
            return refused
    needs = needs_of(arguments)
    try:
        set_up(context, needs)
        arguments = build_backend(context, arguments)
        if needs.developing:
            return checks.main(context, fast="--fast" in arguments, device="--device" in arguments)
    except KeyboardInterrupt:
        context.progress.say("Stopped. What is done is kept; the same command goes on from here.")
        return STOPPED
    except (SetupError, OSError) as error:
        known = error if isinstance(error, SetupError) else _known(error, context)
        if known is None:
            raise
        context.progress.say(f"{known} [{known.code}]")
        return 1
    return _hand_over(context, needs, arguments)


def _hand_over(context: Context, needs: Needs, arguments: Sequence[str]) -> NoReturn:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    if not needs.engine:
        os.environ["PYTHONPATH"] = str(ROOT)  # the package itself may not be installed yet
    start = [str(context.python), "-P", "-m", "engine.cli", *arguments]
    os.execv(start[0], start)


def build_backend(context: Context, arguments: Sequence[str]) -> Sequence[str]:
    """Builds what `backend build NAME` names; the command is then to install that file."""
    if list(arguments[:2]) != ["backend", "build"] or "--help" in arguments:
        return arguments
    names = [part for part in arguments[2:] if not part.startswith("-")]
    if names[:1] and names[0] in backends.KINDS:
        wanted = [part.partition("=")[2] for part in arguments if "--architectures=" in part]
        file = backends.make(
            context, find_compiler(), names[0], architectures=wanted[0] if wanted else None
        )
        return ["backend", "install", str(file)]
    raise SetupError("backend.unknown", names=", ".join(backends.KINDS))


def set_up(context: Context, needs: Needs) -> None:
    """Does whatever `needs` lacks; returns in milliseconds when nothing is."""
    if not missing(context, needs):
        return
    with (
        locked(context.root / "build" / "setup.lock", lambda: _say_waiting(context)) as first,
        locked(context.cache / "setup.lock", lambda: _say_waiting(context)) as second,
    ):
        # Another set-up may have done it all while this one waited.
        steps = missing(context, needs)
        context.held_locks = [first, second]
        _make(context, needs, steps)
        context.held_locks = []


def missing(context: Context, needs: Needs) -> set[str]:
    """The names of the steps that have to be done; a step stands for those after it, too."""
    steps: set[str] = set()
    if not environment.ready(context, developing=needs.developing):
        steps.add("environment")
    if needs.engine and not library.ready(context):
        steps.add("library")
    if needs.engine and (steps or not extension.ready(context)):
        steps.add("extension")
    if needs.demo_model and not demo_model.ready(context):
        steps.add("demo_model")
    if needs.developing and not doctest_header.ready(context):
        steps.add("doctest_header")
    return steps


def _make(context: Context, needs: Needs, steps: set[str]) -> None:
    # What would fail in the end is asked before anything long begins.
    if "environment" in steps:
        environment.require_python(headers=needs.engine)
    compiler = find_compiler() if steps & {"library", "extension"} else None
    if "environment" in steps:
        environment.make(context, developing=needs.developing)
    if compiler and not library.ready(context):
        library.make(context, compiler)
    if compiler and not extension.ready(context):
        extension.make(context, compiler)
    if "demo_model" in steps:
        demo_model.make(context)
    if "doctest_header" in steps:
        doctest_header.make(context)


def _known(error: OSError, context: Context) -> SetupError | None:
    """The set-up's own error for what the system refused; None if it is a fault of ours."""
    path = error.filename or context.cache
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return SetupError("disk.full", folder=path, needed="up to 3 GiB")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
        return SetupError("folder.not_writable", path=path)
    return None


def _say_waiting(context: Context) -> None:
    context.progress.say("Another set-up is at work; this one waits for it.")


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
