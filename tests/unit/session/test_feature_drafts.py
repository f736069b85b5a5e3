"""A trained head drafts from the features of its target, and the answer is the target's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.api.sampling import SamplingSettings
from engine.drafts.errors import NotRun
from engine.errors import NativeError
from engine.native import native
from engine.runtime.loaded_model import LoadedModel
from engine.runtime.settings import LoadSettings
from tests.support.drafts.shapes import DRAFTED
from tests.support.drafts.text_source import write_text
from tests.support.drafts.trained import trained_drafts
from tests.support.sessions import open_session
from tests.support.tiny_models import write_tiny

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]  # the first has the drafters trained

TRAINED = 64  # tokens: the length of the training's texts


@pytest.fixture(scope="module")
def drafts() -> Path:
    return trained_drafts()


def with_head(drafts: Path, **options: Any) -> Any:
    session = open_session(drafts / "target.gguf", **options)
    model = native().ModelParams()
    model.paths = [str(drafts / "eagle3.gguf")]
    session.draft_with(model)
    return session


def sampler(temperature: float, seed: int = 3) -> Any:
    params = native().SamplerParams()
    params.temperature, params.seed = temperature, seed
    params.top_k, params.top_p, params.min_p = 0, 1.0, 0.0
    return params


def write(
    session: Any, text: list[int], count: int, params: Any, always: int, *, drawn: bool = False
) -> list[int]:
    proposals = native().Proposals
    session.keep(0)
    session.prefill(text, False)
    session.use_drafts(always > 0, always, proposals.drawn if drawn else proposals.likeliest)
    session.start_sampling(params)
    return [session.next_token() for _ in range(count)]


def text_of(length: int, seed: int = 3) -> list[int]:
    return write_text(length, seed).tolist()


def tau_of(session: Any, length: int, seeds: int, *, drawn: bool = False) -> float:
    """At temperature 1, in answers that end where the training's texts did."""
    written = verified = 0
    for seed in range(seeds):
        count = TRAINED - length - 2
        write(session, text_of(length, seed), count, sampler(1.0, seed), DRAFTED, drawn=drawn)
        done = session.draft_statistics
        written += done.accepted + done.verifications
        verified += done.verifications
    assert verified > 300
    return written / verified


def test_tau_is_that_of_training(drafts: Path) -> None:
    """Which is an exact sum; answers that end within a draft take a little of it."""
    expected = json.loads((drafts / "tau.json").read_text())["eagle3"]
    assert tau_of(with_head(drafts), 13, 60) == pytest.approx(expected, abs=0.4)


@pytest.mark.parametrize("temperature", (0.0, 1.0))
def test_the_tokens_of_a_seed_are_the_same_with_likely_drafts(
    drafts: Path, temperature: float
) -> None:
    session = with_head(drafts)
    for seed in range(4):
        plain = write(session, text_of(80, seed), 100, sampler(temperature, seed), 0)
        for always in (1, DRAFTED, 9):
            drafted = write(session, text_of(80, seed), 100, sampler(temperature, seed), always)
            assert drafted == plain
            assert session.draft_statistics.accepted > 10


def test_acceptance_does_not_fall_with_the_context(drafts: Path) -> None:
    """No position and no feature is off by one, in prompts of one pass or of several."""
    whole, parts = with_head(drafts), with_head(drafts, micro_batch=16)
    taus = [tau_of(whole, length, 80) for length in (8, 20, 36)]
    assert min(taus) > 0.85 * max(taus) > 2, taus
    assert tau_of(parts, 36, 80) == pytest.approx(taus[-1], abs=0.1)


def test_a_context_beyond_the_features_that_are_kept_is_drafted_from_its_end(drafts: Path) -> None:
    session = with_head(drafts, n_ctx=4096)
    plain = write(session, text_of(3000), 40, sampler(0.0), 0)
    assert write(session, text_of(3000), 40, sampler(0.0), DRAFTED) == plain
    assert session.draft_statistics.drafted > 0


def test_answers_that_are_gone_back_on_and_gone_on_with_draft_as_before(drafts: Path) -> None:
    session = with_head(drafts)
    text = text_of(30)
    first = write(session, text, 30, sampler(0.0), DRAFTED)
    accepted = session.draft_statistics.accepted
    for back in (1, 7, 12, 29):
        session.keep(len(text) - back)
        session.prefill(text[len(text) - back :], False)
        session.use_drafts(True, DRAFTED)
        session.start_sampling(sampler(0.0))
        assert [session.next_token() for _ in range(30)] == first
        assert abs(session.draft_statistics.accepted - accepted) < 8  # but for near-ties


def test_drawn_drafts_are_accepted_more_often_and_leave_the_distribution(drafts: Path) -> None:
    session = with_head(drafts)
    assert tau_of(session, 13, 60, drawn=True) > tau_of(session, 13, 60) - 0.1
    # The second token of many answers, against the exact distribution.
    text = text_of(20, 5)
    session.keep(0)
    session.prefill(text, False)
    session.use_drafts(False)
    session.start_sampling(sampler(1.0))
    first = int(session.distribution().argmax())
    session.prefill([first], False)
    session.start_sampling(sampler(1.0))
    expected = session.distribution() * 3000
    counts, seed = np.zeros(session.n_vocab), 0
    accepted = 0
    while counts.sum() < 3000:
        session.keep(len(text) - 1)
        session.prefill(text[-1:], False)
        session.use_drafts(True, 1, native().Proposals.drawn)
        session.start_sampling(sampler(1.0, seed))
        seed += 1
        if session.next_token() == first:
            counts[session.next_token()] += 1
            session.next_token()
            accepted += session.draft_statistics.accepted
    assert accepted > 0
    kept = expected > 5
    rest = np.array([expected[~kept].sum()]), np.array([counts[~kept].sum()])
    bins = np.append(expected[kept], rest[0]), np.append(counts[kept], rest[1])
    statistic = ((bins[1] - bins[0]) ** 2 / np.maximum(bins[0], 1)).sum()
    assert statistic < 2 * len(bins[0]) + 25  # beyond chance at 1e-4 for 3 to 32 bins


def test_a_head_of_other_features_is_refused(drafts: Path, tmp_path: Path) -> None:
    other = write_tiny(tmp_path / "t.gguf", "qwen3", width=256, vocab=32, tokenizer="test")
    session = open_session(other)
    model = native().ModelParams()
    model.paths = [str(drafts / "eagle3.gguf")]
    with pytest.raises(NativeError) as caught:
        session.draft_with(model)
    assert caught.value.code in ("draft.features", "draft.vocabulary")


def test_a_loaded_model_drafts_with_its_head_and_reports_it(drafts: Path) -> None:
    model = LoadedModel(
        drafts / "target.gguf",
        draft=drafts / "eagle3.gguf",
        settings=LoadSettings(context=256, threads=1),
    )
    for always, count in ((0, 8), (DRAFTED, 40)):  # passes without drafts are the baseline
        model.always_draft(always)
        model.keep(0)
        model.prefill(text_of(13), path="decoder", on_progress=lambda _: None)
        model.start_sampling(SamplingSettings(temperature=0))
        for _ in range(count):
            model.next_token()
    report = model.draft_report()
    assert report is not None
    assert report.method == "eagle3"
    assert report.tau > 2.5
    assert model.memory.drafter > 0
    with pytest.raises(NotRun):
        LoadedModel(drafts / "target.gguf", draft=drafts / "dflash.gguf")
