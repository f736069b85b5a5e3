"""Measures what drafts gain: the same answers written with and without them, in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from engine.api.sampling import SamplingSettings
from engine.api.turn import DraftMethod, DraftReport
from engine.bench.errors import Stopped
from engine.bench.sample_text import sample_text, tokenize
from engine.chat.cancellation import Cancellation
from engine.chat.model import CANCELLED_TOKEN, Progress
from engine.runtime.loaded_model import LoadedModel

# quote: a text, an edited copy of it as far as its beginning, to be gone on with.
# free: a text, to be gone on with.
DraftTask = Literal["quote", "free"]
_EDITS = ((" the ", " this "), (" is ", " was "))
_COST_REPEATS = 3
_WARM_UP = 8  # tokens


class DraftRow(BaseModel):
    """`tps` and `baseline_tps`: tokens a second with and without drafts, medians of all rounds,
    sampling included; `speedup` is the median of the rounds' ratios. `context` is the prompt in
    tokens. `verify_cost`: seconds of passes over 1, 2, ... tokens after that prompt, the least of
    several. `accepted_by_position`: of the tokens drafted at each place, the share that was
    accepted. `tau` 0: nothing was verified."""

    model_config = ConfigDict(frozen=True)

    method: DraftMethod
    task: DraftTask
    context: int
    temperature: float
    tokens: int
    threads: int
    tau: float
    drafted_tokens: int
    accepted_tokens: int
    tps: float
    baseline_tps: float
    speedup: float
    same_tokens: bool
    verify_cost: list[float]
    accepted_by_position: list[float]


# Rounds done and in all; whether with drafts; tokens a second.
OnDraftRound = Callable[[int, int, bool, float], None]


def measure_drafts(
    model: LoadedModel,
    task: DraftTask,
    *,
    prompt_tokens: int,
    tokens: int,
    temperature: float,
    repeat: int,
    on_round: OnDraftRound | None = None,
    cancellation: Cancellation | None = None,
) -> DraftRow:
    """One row, of `repeat` rounds each with and without drafts; on the model's thread.

    A round samples the first token after the prompt, then times `tokens` more. The prompt is read
    by the decoder once, and kept. Raises Stopped, and what the model raises.
    """
    cancellation = cancellation or Cancellation()
    prompt = draft_prompt(model, task, prompt_tokens)
    rates: dict[bool, list[float]] = {True: [], False: []}
    answers: dict[bool, list[int]] = {True: [], False: []}
    report: DraftReport | None = None
    _answer(model, prompt, _WARM_UP, temperature, False, cancellation)
    for number in range(repeat):
        for drafts in (False, True) if number % 2 == 0 else (True, False):
            written, seconds = _answer(model, prompt, tokens, temperature, drafts, cancellation)
            rates[drafts].append(tokens / seconds)
            answers[drafts] = written
            report = model.draft_report() if drafts else report
            if on_round:
                on_round(sum(map(len, rates.values())), 2 * repeat, drafts, rates[drafts][-1])
    pairs = zip(rates[True], rates[False], strict=True)
    return DraftRow(
        method=model.draft_method,
        task=task,
        context=len(prompt),
        temperature=temperature,
        tokens=tokens,
        threads=model.settings.threads,
        tau=report.tau if report else 0.0,
        drafted_tokens=report.drafted_tokens if report else 0,
        accepted_tokens=report.accepted_tokens if report else 0,
        tps=statistics.median(rates[True]),
        baseline_tps=statistics.median(rates[False]),
        speedup=statistics.median(drafted / plain for drafted, plain in pairs),
        same_tokens=answers[True] == answers[False],
        verify_cost=_verify_costs(model, prompt, cancellation),
        accepted_by_position=list(report.accepted_by_position) if report else [],
    )


def draft_prompt(model: LoadedModel, task: DraftTask, tokens: int) -> list[int]:
    """About `tokens` tokens."""
    if task == "free":
        return tokenize(model, sample_text(model, tokens))[:tokens]
    text = sample_text(model, tokens // 2)
    edited = text
    for word, other in _EDITS:
        edited = edited.replace(word, other)
    beginning = edited[: len(edited) // 4]
    return tokenize(model, f"{text}\n\nThe same text, edited:\n\n{text}\n\n{beginning}")[-tokens:]


def _answer(
    model: LoadedModel,
    prompt: Sequence[int],
    tokens: int,
    temperature: float,
    drafts: bool,
    cancellation: Cancellation,
) -> tuple[list[int], float]:
    """The tokens after the first, and the seconds that they took."""
    _read(model, prompt, cancellation)
    model.start_sampling(
        SamplingSettings(
            temperature=temperature, seed=1, top_k=0, top_p=1.0, min_p=0.0,
            drafts="auto" if drafts else "off",
        )
    )  # fmt: skip
    with cancellation.interrupting(model.cancel):
        next_token = model.next_token
        next_token()
        started = time.perf_counter()
        written = [next_token() for _ in range(tokens)]
        seconds = time.perf_counter() - started
    if CANCELLED_TOKEN in written:
        raise Stopped
    return written, seconds


def _read(model: LoadedModel, prompt: Sequence[int], cancellation: Cancellation) -> None:
    """Of what is cached, all but the prompt's last token can stay."""

    def on_progress(progress: Progress) -> None:
        del progress
        if cancellation.cancelled:
            model.cancel()

    common = 0
    for cached, wanted in zip(model.cached_tokens, prompt[:-1], strict=False):
        if cached != wanted:
            break
        common += 1
    kept = model.keep(common)
    with cancellation.interrupting(model.cancel):
        if model.prefill(prompt[kept:], path="decoder", on_progress=on_progress).cancelled:
            raise Stopped


def _verify_costs(
    model: LoadedModel, prompt: Sequence[int], cancellation: Cancellation
) -> list[float]:
    costs: list[float] = []
    for guesses in range(model.most_drafted + 1):
        seconds: list[float] = []
        for _ in range(_COST_REPEATS):
            if cancellation.cancelled:
                raise Stopped
            _read(model, prompt, cancellation)
            started = time.perf_counter()
            model.feed(prompt[0], prompt[1 : 1 + guesses])
            seconds.append(time.perf_counter() - started)
        costs.append(min(seconds))
    return costs
