"""Measures what the engine costs a token: the library alone against a model with its prefiller.

Both run the same library at the same length with the same threads, in two processes that take
turns; while one decodes, the other's threads sleep.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict

from engine.api.turn import Path
from engine.bench.errors import BareLibraryFailed, PromptTooShort, Stopped
from engine.bench.sample_text import sample_text, tokenize
from engine.bench.ttft import GREEDY, prepare
from engine.chat.cancellation import Cancellation
from engine.chat.model import CANCELLED_TOKEN, Progress
from engine.native import cpu_variant_file, native
from engine.runtime.loaded_model import LoadedModel

_WARM_UP = 4  # tokens; the first ones touch weights and buffers for the first time

Method = Literal["library", "engine"]
_METHODS: tuple[Method, ...] = ("library", "engine")


class DecodeRow(BaseModel):
    """Decoded tokens a second, one a repeat; `ratio` is the median over the library's.

    `path` is how the prompt was read beforehand. `gomp_spincount` is how often OpenMP's threads
    look for work before they sleep, the same in both processes: it changes the rate a lot.
    """

    model_config = ConfigDict(frozen=True)

    method: Method
    tps: list[float]
    median: float
    ratio: float
    path: Path
    prompt_tokens: int
    tokens: int
    threads: int
    gomp_spincount: str


# Rounds done and in all; the last one's method and tokens a second.
OnRound = Callable[[int, int, Method, float], None]


def measure_decode(
    model: LoadedModel,
    *,
    prompt_tokens: int,
    tokens: int,
    repeat: int,
    on_round: OnRound | None = None,
    cancellation: Cancellation | None = None,
) -> list[DecodeRow]:
    """Two rows, of `repeat` rounds each; on the model's thread.

    A round reads the prompt (the engine: by `odp` if it has a prefiller), samples the first token,
    then times `tokens` evaluations, each with the greedy sampling after it. The restoration of
    decoder weights that were lent to slots falls into that time. Who goes first alternates; one
    short round of each beforehand is not counted.
    Raises PromptTooShort, BareLibraryFailed, Stopped, and what the model raises.
    """
    least = native().min_prefill_tokens
    if prompt_tokens < least:
        raise PromptTooShort(tokens=prompt_tokens, least=least)
    cancellation = cancellation or Cancellation()
    path: Path = "odp" if model.prefiller else "decoder"
    prompt = tokenize(model, sample_text(model, prompt_tokens))[:prompt_tokens]
    threads, spin = model.settings.threads, os.environ["GOMP_SPINCOUNT"]
    tps: dict[Method, list[float]] = {method: [] for method in _METHODS}
    with _Library(model, prompt, cancellation) as library:

        def seconds(method: Method, count: int) -> float:
            if cancellation.cancelled:
                raise Stopped
            if method == "library":
                return library.round(count)
            return _engine_round(model, path, prompt, count, cancellation)

        for method in _METHODS:
            seconds(method, _WARM_UP)
        for number in range(repeat):
            for method in _METHODS if number % 2 == 0 else _METHODS[::-1]:
                tps[method].append(tokens / seconds(method, tokens))
                if on_round:
                    on_round(sum(map(len, tps.values())), 2 * repeat, method, tps[method][-1])
    medians = {method: statistics.median(rates) for method, rates in tps.items()}
    return [
        DecodeRow(
            method=method,
            tps=tps[method],
            median=medians[method],
            ratio=medians[method] / medians["library"],
            path=path if method == "engine" else "decoder",
            prompt_tokens=prompt_tokens,
            tokens=tokens,
            threads=threads,
            gomp_spincount=spin,
        )
        for method in _METHODS
    ]


def _engine_round(
    model: LoadedModel,
    path: Path,
    prompt: Sequence[int],
    tokens: int,
    cancellation: Cancellation,
) -> float:
    """The seconds that `tokens` tokens take after the first."""

    def on_progress(progress: Progress) -> None:
        del progress
        if cancellation.cancelled:
            model.cancel()  # in case it came before the model was listening

    prepare(model, path, cancellation)
    model.keep(0)
    with cancellation.interrupting(model.cancel):
        if model.prefill(prompt, path=path, on_progress=on_progress).cancelled:
            raise Stopped
        model.start_sampling(GREEDY)
        next_token = model.next_token
        token = next_token()
        started = time.perf_counter()
        for _ in range(tokens):
            token = next_token()
            if token == CANCELLED_TOKEN:
                raise Stopped
        return time.perf_counter() - started


class _Library:
    """The child process that runs engine.bench.bare_library."""

    def __init__(
        self, model: LoadedModel, prompt: Sequence[int], cancellation: Cancellation
    ) -> None:
        self._cancellation = cancellation
        self._setup = {
            "cpu_backend": str(cpu_variant_file() or ""),
            "model": str(model.files.files[0].path),
            "context": model.n_ctx,
            "threads": model.settings.threads,
            "prompt": prompt,
        }

    def __enter__(self) -> Self:
        self._errors = tempfile.TemporaryFile()
        # The environment is this process's own, OpenMP's settings included.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "engine.bench.bare_library"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        try:
            self._ask(self._setup)
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def round(self, tokens: int) -> float:
        return float(self._ask({"tokens": tokens})["seconds"])

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        to, answers = self._process.stdin, self._process.stdout
        assert to is not None and answers is not None
        with self._cancellation.interrupting(self._process.kill):
            try:
                print(json.dumps(message), file=to, flush=True)
                answer = answers.readline()
            except OSError:
                answer = ""
        if self._cancellation.cancelled:
            raise Stopped
        if not answer:
            raise BareLibraryFailed(reason=self._last_words())
        return json.loads(answer)

    def _last_words(self) -> str:
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else f"exit status {code}"

    def _close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()
