"""Runs the worker: commands come in on stdin, replies go out on what was stdout."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
import threading
from pathlib import Path
from typing import BinaryIO

from engine.worker.host import ModelHost
from engine.worker.loading import OpenModel, open_model
from engine.worker.protocol import COMMAND, Reply

# The kernel ends this process before others when memory runs out.
OOM_SCORE = "500"
# Time to stop work and free the model after the server has gone, before the process just ends.
END_S = 2.0


def main(open_model: OpenModel = open_model) -> None:
    replies = _private_stdout()
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server
    _spare_others()
    lock = threading.Lock()

    def send(reply: Reply) -> None:
        line = reply.model_dump_json().encode() + b"\n"
        with lock, contextlib.suppress(BrokenPipeError):
            replies.write(line)
            replies.flush()

    host = ModelHost(open_model, send)
    for line in sys.stdin.buffer:
        host.obey(COMMAND.validate_json(line))
    # The server has gone, or wants this process gone; a call into the library may take its time.
    threading.Timer(END_S, os._exit, (0,)).start()
    host.close()
    os._exit(0)


def _private_stdout() -> BinaryIO:
    """What was stdout; anything else that is printed goes to stderr, the library's text too."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return replies


def _spare_others() -> None:
    """Marks this process as the one to end first, and keeps its memory out of core dumps."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(OOM_SCORE, encoding="ascii")
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main()
