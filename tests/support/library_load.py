"""Loads GGUF files in the library, each in its own child process, and says how that went.

    python -m tests.support.library_load FILE...      one JSON line a file

`outcome` is "ran" (loaded, tokenised, decoded), "refused" (the library said no), "crashed"
(killed by a signal) or "hung"; `words` are the library's last ones. The children are forked
from a process that has opened the library but not used it, so a file costs milliseconds.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECONDS = 20.0
MEMORY_BYTES = 6 << 30
PROMPT = "Hello wörld ☃ \x01\n<|im_end|> 1234".encode()


@dataclass(frozen=True)
class Outcome:
    path: Path
    outcome: str
    words: str


def load_all(paths: Iterable[Path]) -> list[Outcome]:
    """Run this module on `paths` in a process of its own."""
    command = [sys.executable, "-m", "tests.support.library_load", *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return [Outcome(Path(row["path"]), row["outcome"], row["words"]) for row in rows]


def _each(paths: Iterable[str]) -> Iterator[dict[str, str]]:
    for path in paths:
        with tempfile.TemporaryFile() as log:
            pid = os.fork()
            if pid == 0:
                _child(path, log.fileno())
            status = _wait(pid)
            log.seek(0)
            words = log.read().decode(errors="replace").strip().splitlines()
        if status is None:
            outcome = "hung"
        elif os.WIFSIGNALED(status):
            outcome = "crashed"
        else:
            outcome = {0: "ran", 1: "refused"}.get(os.WEXITSTATUS(status), "crashed")
        telling = [line for line in words if "ASSERT" in line or "what()" in line]
        yield {"path": path, "outcome": outcome, "words": (telling or words or [""])[-1]}


def _wait(pid: int) -> int | None:
    handle = os.pidfd_open(pid)
    try:
        ready, _, _ = select.select([handle], [], [], SECONDS)
        if not ready:
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        return status if ready else None
    finally:
        os.close(handle)


def _child(path: str, log: int) -> None:
    os.dup2(log, 1)
    os.dup2(log, 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    os.environ["GGML_NO_BACKTRACE"] = "1"  # no debugger on our own children
    code = 3
    try:
        code = 0 if _use(path) else 1
    finally:
        os._exit(code)


def _use(path: str) -> bool:
    """Everything that a chat does with a model, once; False if the library refuses it."""
    import llama_cpp

    lib: Any = llama_cpp
    parameters = lib.llama_model_default_params()
    model = lib.llama_model_load_from_file(path.encode(), parameters)
    if not model:
        return False
    vocab = lib.llama_model_get_vocab(model)
    tokens = (ctypes.c_int32 * 256)()
    found = max(0, lib.llama_tokenize(vocab, PROMPT, len(PROMPT), tokens, 256, True, True))
    piece = ctypes.create_string_buffer(256)
    count = lib.llama_vocab_n_tokens(vocab)
    for token in range(min(count, 400)):
        lib.llama_token_to_piece(vocab, token, piece, 256, 0, True)
        lib.llama_vocab_is_eog(vocab, token)
    lib.llama_model_chat_template(model, None)
    settings = lib.llama_context_default_params()
    settings.n_ctx, settings.n_threads, settings.n_threads_batch = 256, 1, 1
    context = lib.llama_init_from_model(model, settings)
    if not context:
        return False
    usable = [token for token in tokens[:found] if 0 <= token < count] or [0]
    for batch in (usable, usable[:1]):
        held = (ctypes.c_int32 * len(batch))(*batch)
        if lib.llama_decode(context, lib.llama_batch_get_one(held, len(batch))) != 0:
            return False
        logits = lib.llama_get_logits_ith(context, -1)
        sum(logits[n] for n in range(count))
    lib.llama_free(context)
    lib.llama_model_free(model)
    return True


if __name__ == "__main__":
    import llama_cpp  # opened once, for all children

    del llama_cpp
    for row in _each(sys.argv[1:]):
        print(json.dumps(row), flush=True)
