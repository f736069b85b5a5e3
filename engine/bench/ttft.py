"""Measures the time to first token on each path, cold, in one process and interleaved."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from engine.api.sampling import SamplingSettings
from engine.api.turn import Path
from engine.bench.disk import measure_disk
from engine.bench.errors import PromptTooShort, Stopped
from engine.bench.peak_memory import PeakMemory
from engine.bench.sample_text import sample_text, tokenize
from engine.chat.cancellation import Cancellation
from engine.chat.model import CANCELLED_TOKEN, PrefillReport, Progress
from engine.errors import NativeError
from engine.native import native
from engine.runtime.loaded_model import CANCELLED, LoadedModel
from engine.runtime.routing import NoPrefiller

GREEDY = SamplingSettings(temperature=0, drafts="off")
_DISK_SECONDS = 1.0


class TtftRow(BaseModel):
    """One path at one prompt length. Times in seconds, rates in 10^9 bytes a second.

    `ttft_s` and `prefill_s` have one entry a repeat; the rest are medians over the repeats.
    `micro_batch`: tokens a pass reads at most; each pass reads a streamed prefiller once.
    `bytes_read`: weights that came from the disk during the run, at `read_gbps` while they came.
    `disk_gbps`: what the same file gave between the runs, asked in the same way; the read floor
    is `bytes_read` at that rate. `peak_rss_bytes`: the most that the whole process held during
    the run, decoder and cache included; None where the system does not tell.
    """

    model_config = ConfigDict(frozen=True)

    path: Path
    prompt_tokens: int
    micro_batch: int
    ttft_s: list[float]
    prefill_s: list[float]
    bytes_read: int
    read_gbps: float | None
    wait_s: float
    prefill_weight_bytes: int
    peak_rss_bytes: int | None
    disk_gbps: float | None
    read_floor_s: float

    @property
    def ttft(self) -> float:
        """The median."""
        return statistics.median(self.ttft_s)

    @property
    def prefill_tps(self) -> float:
        """Tokens a second, from the median time."""
        return self.prompt_tokens / statistics.median(self.prefill_s)


@dataclass(frozen=True, slots=True)
class Run:
    """One of the `total` runs to make, counted from 1; 0 is the one that is not measured."""

    path: Path
    prompt_tokens: int
    number: int
    total: int


# The run, the tokens of its prompt that are read, and its time to first token once it is known.
OnRun = Callable[[Run, int, float | None], None]


@dataclass(frozen=True, slots=True)
class _Sample:
    ttft_s: float
    report: PrefillReport
    peak_rss: int | None


def measure_ttft(
    model: LoadedModel,
    prompt_tokens: Sequence[int],
    paths: Sequence[Path],
    repeat: int,
    *,
    on_run: OnRun | None = None,
    cancellation: Cancellation | None = None,
) -> list[TtftRow]:
    """One row for each path and length, of `repeat` runs each; on the model's thread.

    In each repeat every length is read on every path in turn, so that what else the machine does
    hits all alike. Before a run's clock starts, its path is prepared (for `resident`: all weights
    are in memory), the KV cache is empty and the prefiller's files are out of the page cache.
    Raises PromptTooShort, NoPrefiller, Stopped, and what reading raises.
    """
    least = native().min_prefill_tokens
    for tokens in prompt_tokens:
        if tokens < least:
            raise PromptTooShort(tokens=tokens, least=least)
    if model.prefiller is None:
        for path in paths:
            if path != "decoder":
                raise NoPrefiller(path=path)
    bench = _Bench(model, on_run, cancellation or Cancellation())
    texts = {tokens: sample_text(model, tokens) for tokens in prompt_tokens}
    samples: dict[tuple[Path, int], list[_Sample]] = {
        (path, tokens): [] for path in paths for tokens in prompt_tokens
    }
    rates: list[float] = []
    total = repeat * len(samples)
    shortest = min(prompt_tokens)
    # Memory that is touched for the first time is no path's fault.
    bench.read(Run("decoder", shortest, 0, total), texts[shortest])
    number = 0
    for _ in range(repeat):
        rates += bench.disk_rates()
        for tokens in prompt_tokens:
            for path in paths:
                number += 1
                run = Run(path, tokens, number, total)
                samples[path, tokens].append(bench.read(run, texts[tokens]))
    disk_gbps = statistics.median(rates) if rates else None
    return [
        _row(path, tokens, model.micro_batch, measured, disk_gbps)
        for (path, tokens), measured in samples.items()
    ]


class _Bench:
    def __init__(
        self, model: LoadedModel, on_run: OnRun | None, cancellation: Cancellation
    ) -> None:
        self._model = model
        self._on_run = on_run
        self._cancellation = cancellation
        self._files = model.prefiller.files if model.prefiller else ()

    def disk_rates(self) -> list[float]:
        """How fast the prefiller's largest file comes now; nothing without one."""
        self._check_stopped()
        settings = self._model.settings
        largest = sorted(self._files, key=lambda file: file.stat().st_size)[-1:]
        return [
            measure_disk(
                file, settings.request_bytes, settings.in_flight, seconds=_DISK_SECONDS
            ).gbps
            for file in largest
        ]

    def read(self, run: Run, text: str) -> _Sample:
        self._check_stopped()
        self._tell(run, 0)
        model = self._model
        if run.path == "decoder":
            model.release()  # or its memory would count as this path's
        else:
            prepare(model, run.path, self._cancellation)
        model.keep(0)
        for file in self._files:
            native().drop_from_page_cache(file)
        with self._cancellation.interrupting(model.cancel):
            sample = self._first_token(run, text)
        self._tell(run, run.prompt_tokens, sample.ttft_s)
        return sample

    def _first_token(self, run: Run, text: str) -> _Sample:
        model = self._model

        def on_progress(progress: Progress) -> None:
            if self._cancellation.cancelled:
                model.cancel()  # in case it came before the model was listening
            self._tell(run, progress.tokens_done)

        peak = PeakMemory()
        started = time.perf_counter()
        prompt = tokenize(model, text)[: run.prompt_tokens]
        report = model.prefill(prompt, path=run.path, on_progress=on_progress)
        if report.cancelled:
            raise Stopped
        model.start_sampling(GREEDY)
        if model.next_token() == CANCELLED_TOKEN:
            raise Stopped
        return _Sample(time.perf_counter() - started, report, peak.nbytes)

    def _tell(self, run: Run, tokens_done: int, ttft_s: float | None = None) -> None:
        if self._on_run:
            self._on_run(run, tokens_done, ttft_s)

    def _check_stopped(self) -> None:
        if self._cancellation.cancelled:
            raise Stopped


def prepare(model: LoadedModel, path: Path, cancellation: Cancellation) -> None:
    """Puts the prefiller where `path` wants it. Raises Stopped when cancelled meanwhile."""
    try:
        model.prepare(path, lambda _done: not cancellation.cancelled)
    except NativeError as error:
        if error.code == CANCELLED:
            raise Stopped from error
        raise


def _row(
    path: Path, tokens: int, micro_batch: int, samples: list[_Sample], disk_gbps: float | None
) -> TtftRow:
    reports = [sample.report for sample in samples]
    bytes_read = statistics.median_low(report.bytes_read for report in reports)
    load_s = statistics.median(report.load_s for report in reports)
    peaks = [sample.peak_rss for sample in samples if sample.peak_rss is not None]
    return TtftRow(
        path=path,
        prompt_tokens=tokens,
        micro_batch=micro_batch,
        ttft_s=[sample.ttft_s for sample in samples],
        prefill_s=[report.seconds for report in reports],
        bytes_read=bytes_read,
        read_gbps=bytes_read / load_s / 1e9 if load_s else None,
        wait_s=statistics.median(report.wait_s for report in reports),
        prefill_weight_bytes=max(report.weight_bytes for report in reports),
        peak_rss_bytes=statistics.median_low(peaks) if peaks else None,
        disk_gbps=disk_gbps,
        read_floor_s=bytes_read / disk_gbps / 1e9 if disk_gbps else 0.0,
    )


def against_best(row: TtftRow, rows: Sequence[TtftRow]) -> float | None:
    """An `odp` row's time over the larger of its read floor and `resident` at the same length:
    1 is the best that streaming can do. None for other rows, or without `resident`."""
    for other in rows:
        if (other.path, other.prompt_tokens) == ("resident", row.prompt_tokens):
            best = max(row.read_floor_s, other.ttft)
            return row.ttft / best if row.path == "odp" else None
    return None
