"""Settings out of range are refused."""

from typing import Any

import pytest
from pydantic import ValidationError

from engine.api.sampling import SamplingSettings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", 2.1),
        ("temperature", float("nan")),
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("min_p", -0.1),
        ("min_p", 1.1),
        ("repeat_penalty", 0.0),
        ("presence_penalty", 2.1),
        ("frequency_penalty", -2.1),
        ("penalty_last_n", -1),
        ("seed", -1),
        ("seed", 2**32),
        ("max_tokens", 0),
        ("stop", ("",)),
        ("stop", ("x",) * 17),
        ("temprature", 1.0),
    ],
)
def test_a_value_out_of_range_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        SamplingSettings.model_validate({name: value})
    assert name in str(caught.value)


def test_the_ends_of_each_range_are_accepted() -> None:
    SamplingSettings(temperature=0.0, top_k=0, top_p=1.0, min_p=0.0, repeat_penalty=1.0, seed=0)
    SamplingSettings(temperature=2.0, min_p=1.0, seed=2**32 - 1, max_tokens=1, stop=("x",) * 16)
