"""The formula for a prompt's time: a floor for each pass, a line and a square for the computing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.api.plan import PathCost
from engine.planner.times import PASS_TOKENS, crossover, ever_faster, prompt_seconds


def cost(**values: float) -> PathCost:
    return PathCost.model_validate(
        {"fixed_s": 0, "token_s": 0, "token2_s": 0, "pass_s": 0, "micro_batch": 512} | values
    )


def test_one_pass_takes_the_larger_of_reading_and_computing() -> None:
    reading = cost(fixed_s=0.5, token_s=0.001, pass_s=2)
    assert prompt_seconds(reading, 500) == pytest.approx(2.5)
    computing = cost(fixed_s=0.5, token_s=0.01, pass_s=2)
    assert prompt_seconds(computing, 500) == pytest.approx(0.5 + 0.01 * (500 + PASS_TOKENS))


def test_a_longer_prompt_reads_once_a_pass() -> None:
    assert prompt_seconds(cost(pass_s=2), 512) == pytest.approx(2)
    assert prompt_seconds(cost(pass_s=2), 513) == pytest.approx(4)


def test_attention_grows_with_the_square_however_the_prompt_is_cut() -> None:
    for width in (32, 100, 512, 10_000):
        whole = cost(token2_s=1e-6, micro_batch=width)
        assert prompt_seconds(whole, 1000) == pytest.approx(1.0)


def test_what_is_cached_costs_attention_but_no_products() -> None:
    both = cost(token2_s=1e-6, token_s=1e-3)
    rest = prompt_seconds(both, 100, cached=900)
    assert rest == pytest.approx(1e-6 * (1000**2 - 900**2) + 1e-3 * (100 + PASS_TOKENS))


def test_the_crossover_is_the_first_length_that_is_faster() -> None:
    slow, floor = cost(token_s=0.001, micro_batch=8192), cost(pass_s=3, micro_batch=8192)
    found = crossover(slow, floor, limit=8192)
    assert found == 3000 - PASS_TOKENS + 1
    assert prompt_seconds(floor, found) < prompt_seconds(slow, found)
    assert prompt_seconds(floor, found - 1) >= prompt_seconds(slow, found - 1)


def test_from_the_crossover_on_every_length_is_faster_however_it_is_cut_into_passes() -> None:
    # A whole pass gains, but one more token costs another three quarters of what it gains.
    slow, floor = cost(token_s=0.001, micro_batch=1000), cost(pass_s=0.75, micro_batch=1000)
    found = crossover(slow, floor, limit=20_000)
    assert found is not None
    assert prompt_seconds(floor, 1000) < prompt_seconds(slow, 1000)
    assert prompt_seconds(floor, 1001) > prompt_seconds(slow, 1001)
    assert 2000 < found < 4000
    assert prompt_seconds(floor, found - 1) >= prompt_seconds(slow, found - 1)
    for tokens in range(found, 20_000):
        assert prompt_seconds(floor, tokens) < prompt_seconds(slow, tokens), tokens


def test_there_is_no_crossover_where_nothing_is_faster() -> None:
    assert crossover(cost(token_s=1), cost(token_s=2)) is None
    assert not ever_faster(cost(token_s=1), cost(token_s=2))
    slow, floor = cost(token_s=0.001, micro_batch=8192), cost(pass_s=3, micro_batch=8192)
    assert crossover(slow, floor, limit=1000) is None
    assert not ever_faster(slow, floor, limit=1000)
    assert ever_faster(slow, floor)


def test_what_is_always_faster_crosses_at_the_first_token() -> None:
    assert crossover(cost(token_s=2), cost(token_s=1)) == 1


@given(
    tokens=st.integers(1, 20_000),
    more=st.integers(0, 2000),
    width=st.sampled_from([128, 512, 4096]),
    floor=st.floats(0, 5),
)
def test_a_longer_prompt_never_takes_less(tokens: int, more: int, width: int, floor: float) -> None:
    # Within a pass' fixed share: cutting a prompt anew moves that much.
    found = cost(token_s=1e-3, token2_s=1e-8, pass_s=floor, micro_batch=width)
    slack = 1e-3 * width
    assert prompt_seconds(found, tokens + more) >= prompt_seconds(found, tokens) - slack
