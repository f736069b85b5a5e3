"""The library alone, in a process of its own: `python -m engine.bench.bare_library`.

Decodes greedily through llama-cpp-python's low-level bindings in the tightest loop they allow:
one batch, made once, and the library's own sampler. Nothing of the engine computes.

Reads JSON lines: first `{cpu_backend, model, context, threads, prompt}`, then `{tokens}` for each
round. `cpu_backend` is the file to open where the library comes without one, else empty.
Writes `{}` once the model is loaded, then for each round `{seconds}`, the time of that many
evaluations, each with the sampling after it. Ends when its input does.
"""

from __future__ import annotations

import ctypes
import json
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import llama_cpp

from engine.backends.opening import open_backend

_BATCH = 512  # the library's own default
_ERROR = 4  # GGML_LOG_LEVEL_ERROR


class BareLibrary:
    def __init__(self, cpu_backend: str, path: str, context: int, threads: int) -> None:
        self._log = llama_cpp.llama_log_callback(_only_errors)
        llama_cpp.llama_log_set(self._log, ctypes.c_void_p(0))
        if cpu_backend:
            folder = Path(llama_cpp.__file__).parent / "lib"
            if not open_backend(ctypes.CDLL(str(folder / "libllama.so")), Path(cpu_backend)):
                raise RuntimeError(f"{cpu_backend} could not be opened")
        llama_cpp.llama_backend_init()
        self._model: Any = llama_cpp.llama_model_load_from_file(
            path.encode(), llama_cpp.llama_model_default_params()
        )
        if not self._model:
            raise RuntimeError(f"{path} could not be loaded")
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = context
        params.n_batch = params.n_ubatch = _BATCH
        params.n_threads = params.n_threads_batch = threads
        self._context: Any = llama_cpp.llama_init_from_model(self._model, params)
        if not self._context:
            raise RuntimeError(f"no context of {context} tokens")
        chain: Any = llama_cpp.llama_sampler_chain_init(
            llama_cpp.llama_sampler_chain_default_params()
        )
        greedy: Any = llama_cpp.llama_sampler_init_greedy()
        llama_cpp.llama_sampler_chain_add(chain, greedy)
        self._sampler = chain

    def round(self, prompt: Sequence[int], tokens: int) -> float:
        """Reads the prompt anew, then the seconds that `tokens` evaluations take."""
        memory: Any = llama_cpp.llama_get_memory(self._context)
        llama_cpp.llama_memory_clear(memory, False)
        for first in range(0, len(prompt), _BATCH):
            part = prompt[first : first + _BATCH]
            self._evaluate((llama_cpp.llama_token * len(part))(*part))
        sample, decode = llama_cpp.llama_sampler_sample, llama_cpp.llama_decode
        sampler, context = self._sampler, self._context
        token = (llama_cpp.llama_token * 1)(sample(sampler, context, -1))
        batch = llama_cpp.llama_batch_get_one(token, 1)
        started = time.perf_counter()
        for _ in range(tokens):
            if decode(context, batch):
                raise RuntimeError("a token could not be evaluated")
            token[0] = sample(sampler, context, -1)
        return time.perf_counter() - started

    def _evaluate(self, tokens: Any) -> None:
        batch = llama_cpp.llama_batch_get_one(tokens, len(tokens))
        if llama_cpp.llama_decode(self._context, batch):
            raise RuntimeError("the prompt could not be evaluated")


def _only_errors(level: int, text: bytes, data: Any) -> None:
    del data
    if level == _ERROR:
        sys.stderr.buffer.write(text)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    setup = json.loads(sys.stdin.readline())
    library = BareLibrary(setup["cpu_backend"], setup["model"], setup["context"], setup["threads"])
    print("{}", flush=True)
    for line in sys.stdin:
        seconds = library.round(setup["prompt"], json.loads(line)["tokens"])
        print(json.dumps({"seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
