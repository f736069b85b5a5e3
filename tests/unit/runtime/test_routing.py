"""Which path a prompt takes."""

from __future__ import annotations

import inspect
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.api.turn import PathSetting
from engine.runtime import routing
from engine.runtime.routing import NoPrefiller, PathUnavailable, Situation, Way, route
from engine.runtime.words import SENTENCES

BLOCKS = 10
STREAMED = Way("odp", 0, 3.0, 3.0, proven=True)
RESIDENT = Way("resident", BLOCKS, 2.0, 2.0, proven=True)
PAIR = Situation(
    tokens=2000,
    blocks=BLOCKS,
    min_prefill_tokens=32,
    quality_gain=True,
    decoder_s=5.0,
    ways=(STREAMED,),
)


def test_a_fixed_path_is_taken_whatever_is_predicted() -> None:
    fixed: dict[PathSetting, int] = {"decoder": 0, "odp": 0, "resident": BLOCKS}
    for path, kept in fixed.items():
        found = route(path, PAIR)
        assert (found.path, found.kept) == (path, kept)
        assert (found.reason.code, found.reason.data) == ("route.chosen", {"path": path})
        assert found.reason.sentence == f"You chose the path {path}."


def test_what_cannot_be_taken_is_refused() -> None:
    with pytest.raises(PathUnavailable):
        route("autocast", PAIR)
    alone = replace(PAIR, blocks=None, ways=())
    for path in ("odp", "resident"):
        with pytest.raises(NoPrefiller):
            route(path, alone)
    assert route("auto", alone).path == "decoder"


@pytest.mark.parametrize("setting", ["auto", "odp", "resident"])
def test_a_prompt_too_short_for_prefill_weights_is_the_decoders(setting: PathSetting) -> None:
    short = route(setting, replace(PAIR, tokens=31))
    assert (short.path, short.reason.code) == ("decoder", "route.too_short")
    assert route(setting, replace(PAIR, tokens=32)).path != "decoder"


def test_the_fastest_policy_takes_the_least_forecast() -> None:
    assert route("auto", PAIR, "fastest").path == "odp"
    both = replace(PAIR, ways=(STREAMED, RESIDENT))
    assert route("auto", both, "fastest").path == "resident"
    mixed = replace(PAIR, ways=(STREAMED, replace(RESIDENT, path="odp", kept=4)))
    found = route("auto", mixed, "fastest")
    assert (found.path, found.kept, found.expected_s) == ("odp", 4, 2.0)


@pytest.mark.parametrize("odp", [5.0, 9.0, 4.9])
def test_the_fastest_policy_never_leaves_the_decoder_without_a_gain(odp: float) -> None:
    # A rank below the decoder's time is no gain: the prompt still waits for the loading.
    slow = replace(PAIR, ways=(replace(STREAMED, seconds=odp, rank_s=1.0),))
    found = route("auto", slow, "fastest")
    assert found.path == "decoder"
    assert found.expected_s == 5.0
    assert f"{odp:.1f} s with the prefiller" in found.reason.sentence


@given(
    decoder_s=st.floats(0.01, 1000),
    ways=st.lists(
        st.tuples(st.floats(0.01, 1000), st.floats(0.01, 1000), st.booleans()), max_size=4
    ),
)
def test_under_fastest_no_path_is_predicted_slower_than_the_decoder(
    decoder_s: float, ways: list[tuple[float, float, bool]]
) -> None:
    made = [Way("odp", kept, *each) for kept, each in enumerate(ways)]
    found = route("auto", replace(PAIR, decoder_s=decoder_s, ways=made), "fastest")
    assert found.expected_s is not None
    assert found.expected_s <= decoder_s


def test_an_unproven_forecast_is_not_followed() -> None:
    guessed = replace(PAIR, ways=(replace(STREAMED, proven=False),))
    found = route("auto", guessed, "fastest")
    assert (found.path, found.reason.code) == ("decoder", "route.speed_unknown")


def test_best_answers_come_from_the_prefiller_even_if_it_is_slower() -> None:
    slow = replace(PAIR, decoder_s=1.0, ways=(replace(STREAMED, proven=False),))
    found = route("auto", slow, "best_answers")
    assert (found.path, found.reason.code) == ("odp", "route.best_answers")


def test_best_answers_stream_until_streaming_has_cost_as_much_as_loading() -> None:
    loading = replace(RESIDENT, seconds=8.0, rank_s=8.0)
    assert route("auto", replace(PAIR, ways=(STREAMED, loading))).path == "odp"
    paid = replace(loading, rank_s=2.5)
    found = route("auto", replace(PAIR, ways=(STREAMED, paid)))
    assert (found.path, found.kept, found.expected_s) == ("resident", BLOCKS, 8.0)


def test_best_answers_mean_the_fastest_path_where_a_prefiller_does_not_help() -> None:
    enough_bits = replace(PAIR, quality_gain=False, decoder_s=1.0)
    assert route("auto", enough_bits, "best_answers").path == "decoder"


def test_every_reason_has_a_sentence() -> None:
    codes = set(re.findall(r'reason\("(route\.\w+)"', inspect.getsource(routing)))
    assert codes == {code for code in SENTENCES if code.startswith("route.")}
