"""Which path a prompt takes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.api.turn import Path, PathSetting
from engine.runtime.routing import NoPrefiller, PathUnavailable, Situation, route

PAIR = Situation(
    tokens=2000,
    has_prefiller=True,
    min_prefill_tokens=32,
    resident_possible=False,
    quality_gain=True,
    seconds={"decoder": 5.0, "odp": 3.0, "resident": 2.0},
    proven=frozenset({"decoder", "odp", "resident"}),
)


def test_a_fixed_path_is_taken_whatever_is_predicted() -> None:
    for path in ("decoder", "odp", "resident"):
        assert route(path, PAIR).path == path
        assert "you chose" in route(path, PAIR).reason


def test_what_cannot_be_taken_is_refused() -> None:
    with pytest.raises(PathUnavailable):
        route("autocast", PAIR)
    alone = replace(PAIR, has_prefiller=False)
    for path in ("odp", "resident"):
        with pytest.raises(NoPrefiller):
            route(path, alone)
    assert route("auto", alone).path == "decoder"


@pytest.mark.parametrize("setting", ["auto", "odp", "resident"])
def test_a_prompt_too_short_for_prefill_weights_is_the_decoders(setting: PathSetting) -> None:
    assert route(setting, replace(PAIR, tokens=31)).path == "decoder"
    assert route(setting, replace(PAIR, tokens=32)).path != "decoder"


def test_the_fastest_policy_takes_the_least_forecast() -> None:
    assert route("auto", PAIR, "fastest").path == "odp"
    assert route("auto", replace(PAIR, resident_possible=True), "fastest").path == "resident"


@pytest.mark.parametrize("odp", [5.0, 9.0, 4.9])
def test_the_fastest_policy_never_leaves_the_decoder_without_a_gain(odp: float) -> None:
    slow = replace(PAIR, seconds={"decoder": 5.0, "odp": odp})
    found = route("auto", slow, "fastest")
    assert found.path == "decoder"
    assert found.expected_s == 5.0
    assert f"{odp:.1f} s with the prefiller" in found.reason


def test_an_unproven_forecast_is_not_followed() -> None:
    guessed = replace(PAIR, proven=frozenset[Path]({"decoder"}))
    assert route("auto", guessed, "fastest").path == "decoder"
    assert "not known" in route("auto", guessed, "fastest").reason


def test_best_answers_come_from_the_prefiller_even_if_it_is_slower() -> None:
    slow = replace(PAIR, seconds={"decoder": 1.0, "odp": 9.0}, proven=frozenset[Path]())
    assert route("auto", slow, "best_answers").path == "odp"
    assert route("auto", replace(slow, resident_possible=True)).path == "resident"


def test_best_answers_stream_while_loading_everything_would_take_longer() -> None:
    loading = replace(PAIR, resident_possible=True, seconds={"odp": 3.0, "resident": 8.0})
    assert route("auto", loading, "best_answers").path == "odp"


def test_best_answers_mean_the_fastest_path_where_a_prefiller_does_not_help() -> None:
    enough_bits = replace(PAIR, quality_gain=False, seconds={"decoder": 1.0, "odp": 9.0})
    assert route("auto", enough_bits, "best_answers").path == "decoder"
