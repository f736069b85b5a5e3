"""Rates and estimates are steady, whatever the packets do."""

from __future__ import annotations

import itertools
import random

from engine.downloads.rate import Rate


def test_a_jittery_stream_has_a_steady_rate_and_estimate() -> None:
    now = 0.0
    rate = Rate(lambda: now)
    chance = random.Random(1)
    shown: list[float] = []
    left = 10_000_000_000
    for tick in range(6000):  # ten minutes
        now += 0.1
        count = chance.choice([0, 0, 500_000, 3_500_000])  # 10 MB/s on average
        rate.add(count)
        left -= count
        if tick % 10 == 0 and now > 5:
            seconds = rate.remaining_s(left)
            assert seconds is not None
            shown.append(now + seconds)
    ends = shown[len(shown) // 20 :]
    steps = [abs(after - before) for before, after in itertools.pairwise(ends)]
    assert max(steps) < 0.1 * 1000, "the predicted end moves by less than a tenth at once"
    assert sum(steps) / len(steps) < 20
    assert 0.8e7 < (rate.per_second() or 0) < 1.2e7


def test_nothing_is_said_before_there_is_something_to_say() -> None:
    now = 0.0
    rate = Rate(lambda: now)
    assert rate.per_second() is None and rate.remaining_s(100) is None
    rate.add(1000)
    now = 0.5
    assert rate.per_second() is None
    now = 2.0
    assert 400 < (rate.per_second() or 0) < 600


def test_a_stream_that_stops_slows_down_and_does_not_promise() -> None:
    now = 0.0
    rate = Rate(lambda: now)
    for _ in range(100):
        now += 0.3
        rate.add(3_000_000)
    before = rate.per_second() or 0
    now += 30
    assert (rate.per_second() or 0) < before / 5
