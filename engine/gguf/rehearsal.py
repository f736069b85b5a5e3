"""Tries a model in a child process, where an abort of the library costs nothing.

For models that `validate.is_checked` does not vouch for. The child loads the model on the
CPU, tokenises, and evaluates two small batches: what loads, builds its graphs and computes
once does so again in the engine. The caller keeps the result with the file's identity.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from engine.gguf.errors import LibraryCrashed, LibraryRefused
from engine.gguf.splits import GgufModel
from engine.native import native

_RAN, _REFUSED = 0, 1
_LEAST_SECONDS = 120.0
_LEAST_BYTES_PER_SECOND = 20e6  # a slow disk: a healthy load is not cut off
_CONTEXT = 256
_EVERY_BYTE = "Hello wörld ☃ \x01\n 1234".encode() + bytes(range(1, 128))


def rehearse(model: GgufModel) -> None:
    """Raises `LibraryRefused` or `LibraryCrashed` with the library's last words."""
    limit = _LEAST_SECONDS + model.file_size / _LEAST_BYTES_PER_SECOND
    command = [sys.executable, "-m", "engine.gguf.rehearsal", str(model.path)]
    environment = os.environ | {"GGML_NO_BACKTRACE": "1"}
    try:
        child = subprocess.run(
            command, capture_output=True, timeout=limit, env=environment, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise LibraryCrashed(model.path, reason=f"no end after {limit:.0f} s") from error
    if child.returncode == _RAN:
        return
    words = last_words(child.stdout + child.stderr)
    if child.returncode == _REFUSED:
        raise LibraryRefused(model.path, reason=words)
    raise LibraryCrashed(model.path, reason=words or f"exit status {child.returncode}")


def last_words(log: bytes) -> str:
    """The line of the library's log that says why it stopped."""
    lines = [line.strip() for line in log.decode(errors="replace").splitlines()]
    lines = [line for line in lines if line.strip(".")]
    marks = ("GGML_ASSERT", "GGML_ABORT", "what():", "error loading", "failed")
    telling = [line for mark in marks for line in lines if mark in line]
    return (telling or lines[-1:] or [""])[0]


def use_once(path: Path) -> bool:
    """Everything that a chat does with a model, once; False if the library refuses it."""
    native()  # opens the library, and the CPU backend where that is a file of its own
    import llama_cpp

    library: Any = llama_cpp
    parameters = library.llama_model_default_params()
    parameters.n_gpu_layers = 0
    model = library.llama_model_load_from_file(os.fsencode(path), parameters)
    if not model:
        return False
    vocab = library.llama_model_get_vocab(model)
    count = library.llama_vocab_n_tokens(vocab)
    tokens = (ctypes.c_int32 * _CONTEXT)()
    used = library.llama_tokenize(
        vocab, _EVERY_BYTE, len(_EVERY_BYTE), tokens, _CONTEXT, True, True
    )
    piece = ctypes.create_string_buffer(64)
    for token in range(count):
        library.llama_token_to_piece(vocab, token, piece, len(piece), 0, True)
    settings = library.llama_context_default_params()
    settings.n_ctx = _CONTEXT
    context = library.llama_init_from_model(model, settings)
    if not context:
        return False
    prompt = [token for token in tokens[: max(used, 0)] if 0 <= token < count][:32] or [0]
    for batch in (prompt, prompt[:1]):
        held = (ctypes.c_int32 * len(batch))(*batch)
        if library.llama_decode(context, library.llama_batch_get_one(held, len(batch))) != 0:
            return False
    return bool(library.llama_get_logits_ith(context, -1))


if __name__ == "__main__":
    sys.stdout.flush()
    ran = use_once(Path(sys.argv[1]))
    os._exit(_RAN if ran else _REFUSED)  # the library's own teardown proves nothing more
