"""Forecasts corrected by runs, and what is kept of them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.api.plan import PathCost
from engine.planner.times import prompt_seconds
from engine.runtime.learned import (
    FIRST_RUN_WEIGHT,
    KEPT_SECONDS,
    PAIRS_KEPT,
    SAMPLES_KEPT,
    Learned,
    Sample,
    corrected,
    with_products,
    with_sample,
)

COST = PathCost(fixed_s=0.1, token_s=1e-3, token2_s=1e-8, pass_s=0.2, micro_batch=512)


def sample(tokens: int, factor: float, time: float = 0.0, cached: int = 0) -> Sample:
    """A run that took `factor` times its forecast."""
    seconds = factor * prompt_seconds(COST, tokens, cached)
    return Sample(tokens=tokens, cached=cached, seconds=seconds, time=time)


def factor(samples: list[Sample], tokens: int) -> float:
    return corrected(COST, samples, tokens) / prompt_seconds(COST, tokens)


def test_without_runs_the_forecast_stands() -> None:
    assert factor([], 1000) == 1


def test_runs_correct_the_forecast_for_their_length_and_beyond() -> None:
    runs = [sample(1000, 2.0), sample(1000, 2.1)]
    for tokens in (1000, 4000, 100):
        assert factor(runs, tokens) == pytest.approx(2.0)


def test_a_single_run_moves_the_forecast_half_way() -> None:
    assert factor([sample(1000, 4.0)], 1000) == pytest.approx(4.0**FIRST_RUN_WEIGHT)


def test_one_run_on_a_busy_machine_does_not_spoil_a_path() -> None:
    assert factor([sample(1000, 10.0), sample(1000, 1.0)], 1000) == pytest.approx(1.0)


def test_between_two_lengths_the_correction_is_interpolated() -> None:
    runs = [sample(256, 1.0), sample(256, 1.0), sample(4096, 4.0), sample(4096, 4.0)]
    assert factor(runs, 1024) == pytest.approx(2.0)  # half way in logarithms


@given(st.floats(0.05, 20), st.integers(32, 30_000), st.integers(0, 5000))
def test_a_machine_that_differs_by_a_factor_is_learned_exactly(
    speed: float, tokens: int, cached: int
) -> None:
    runs = [sample(700, speed), sample(700, speed), sample(9000, speed), sample(9000, speed)]
    found = corrected(COST, runs, tokens, cached)
    assert found == pytest.approx(speed * prompt_seconds(COST, tokens, cached))


def test_the_latest_runs_of_each_length_are_kept() -> None:
    learned = Learned()
    for time in range(50):
        learned = with_sample(learned, "pair", "odp", sample(1000, 1.0 + time, float(time)))
        learned = with_sample(learned, "pair", "odp", sample(5000, 1.0, float(time)))
    kept = learned.pairs["pair"].samples["odp"]
    assert len(kept) == 2 * SAMPLES_KEPT
    assert {one.time for one in kept} == {46.0, 47.0, 48.0, 49.0}


def test_old_runs_are_forgotten() -> None:
    learned = with_sample(Learned(), "pair", "odp", sample(1000, 5.0, 0.0))
    later = with_sample(learned, "pair", "decoder", sample(1000, 1.0, KEPT_SECONDS + 1))
    assert later.pairs["pair"].samples["odp"] == ()
    assert len(learned.pairs["pair"].samples["odp"]) == 1  # what was given is unchanged


def test_the_pairs_used_last_are_kept() -> None:
    learned = Learned()
    for number in range(PAIRS_KEPT + 10):
        learned = with_sample(learned, f"pair {number}", "odp", sample(1000, 1.0, float(number)))
    assert len(learned.pairs) == PAIRS_KEPT
    assert "pair 9" not in learned.pairs
    assert f"pair {PAIRS_KEPT + 9}" in learned.pairs


def test_products_of_a_device_are_added_to_those_known() -> None:
    learned = with_products(Learned(), "CPU 2", {"NVFP4": 0.5})
    learned = with_products(learned, "CPU 2", {"Q4_K": 0.3})
    assert learned.products == {"CPU 2": {"NVFP4": 0.5, "Q4_K": 0.3}}


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.inf, math.nan])
def test_a_time_that_is_none_is_no_sample(seconds: float) -> None:
    with pytest.raises(ValueError, match="seconds"):
        Sample(tokens=100, cached=0, seconds=seconds, time=0.0)
