"""What is reused is right, as long as it can be, and never the whole prompt."""

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from engine.api.turn import Path, PathSetting
from engine.chat.prefix import (
    Origin,
    Run,
    accepted_origins,
    add_run,
    checkpoints_to_drop,
    common_prefix,
    cut_runs,
    plan_reuse,
    read_origin,
)

tokens = st.lists(st.integers(0, 2), max_size=12)
origins = st.sampled_from(get_args(Origin))
run_lists = st.lists(st.builds(Run, st.integers(1, 5), origins), max_size=5)
position_lists = st.lists(st.integers(1, 200), max_size=20)


def whole(cached: list[int]) -> list[Run]:
    return [Run(len(cached), "decoder")]


@given(tokens, tokens)
def test_the_common_prefix_is_the_longest(left: list[int], right: list[int]) -> None:
    length = common_prefix(left, right)
    assert left[:length] == right[:length]
    assert (
        left[length : length + 1] != right[length : length + 1] or length == len(left + right) / 2
    )


@given(tokens, tokens.filter(bool))
def test_a_model_that_truncates_keeps_all_but_what_must_be_read(
    cached: list[int], prompt: list[int]
) -> None:
    reuse = plan_reuse(cached, whole(cached), prompt, can_truncate=True)
    assert reuse.from_checkpoint is None
    assert reuse.keep == min(common_prefix(cached, prompt), len(prompt) - 1)


@given(tokens, tokens.filter(bool), st.lists(st.integers(0, 12)))
def test_a_model_that_cannot_keeps_all_or_the_best_checkpoint(
    cached: list[int], prompt: list[int], checkpoints: list[int]
) -> None:
    reuse = plan_reuse(cached, whole(cached), prompt, can_truncate=False, checkpoints=checkpoints)
    assert cached[: reuse.keep] == prompt[: reuse.keep]
    assert reuse.keep < len(prompt)
    if reuse.from_checkpoint is not None:
        assert reuse.from_checkpoint == reuse.keep
        assert reuse.keep in checkpoints
    else:
        assert reuse.keep in (0, len(cached))
    best = plan_reuse(cached, whole(cached), prompt, can_truncate=True).keep
    assert not any(reuse.keep < position <= best for position in checkpoints)


@given(tokens.filter(bool), run_lists, st.sampled_from(get_args(PathSetting)))
def test_no_run_of_another_origin_is_kept(
    prompt: list[int], runs: list[Run], setting: PathSetting
) -> None:
    accept = accepted_origins(setting)
    kept = plan_reuse(prompt, runs, prompt, accept=accept, can_truncate=True).keep
    assert all(run.origin in accept for run in cut_runs(runs, kept))


def test_tokens_of_unknown_origin_are_not_kept() -> None:
    assert plan_reuse([1, 2, 3], [Run(2, "decoder")], [1, 2, 3, 4], can_truncate=True).keep == 2


def test_asking_for_another_reader_reads_the_prompt_again() -> None:
    runs = [Run(5, "decoder"), Run(3, "answer")]
    cached = list(range(8))
    prompt = [*cached, 9]
    odp, auto = accepted_origins("odp"), accepted_origins("auto")
    assert plan_reuse(cached, runs, prompt, accept=odp, can_truncate=True).keep == 0
    assert plan_reuse(cached, runs, prompt, accept=auto, can_truncate=True).keep == 8


def test_a_short_tail_read_by_the_decoder_counts_as_asked_for() -> None:
    assert read_origin("odp", "decoder") == "prefiller"
    assert read_origin("auto", "decoder") == "decoder"
    assert read_origin("auto", "resident") == "prefiller"


@given(st.sampled_from(get_args(PathSetting)), st.sampled_from(get_args(Path)))
def test_what_a_setting_reads_it_accepts_again(setting: PathSetting, path: Path) -> None:
    assert read_origin(setting, path) in accepted_origins(setting)


@given(run_lists, st.integers(0, 30))
def test_cut_runs_cover_exactly_what_is_left(runs: list[Run], length: int) -> None:
    total = sum(run.length for run in runs)
    assert sum(run.length for run in cut_runs(runs, length)) == min(length, total)


@given(run_lists, st.integers(0, 5), origins)
def test_added_tokens_are_counted_under_their_origin(
    runs: list[Run], length: int, origin: Origin
) -> None:
    more = add_run(runs, length, origin)
    assert sum(run.length for run in more) == sum(run.length for run in runs) + length
    assert length == 0 or more[-1].origin == origin


@given(position_lists, st.integers(1, 8))
def test_checkpoints_stay_within_the_limit_and_the_newest_stays(
    positions: list[int], limit: int
) -> None:
    dropped = checkpoints_to_drop(positions, limit)
    left = set(positions) - set(dropped)
    assert set(dropped) <= set(positions)
    assert len(left) == min(limit, len(set(positions)))
    assert not positions or max(positions) in left


def test_checkpoints_stay_spread_out() -> None:
    """Turns of 100 tokens, each with two checkpoints close together, 4 kept."""
    kept: list[int] = []
    for turn in range(1, 41):
        for position in (turn * 100 - 5, turn * 100):
            kept.append(position)
            kept = [each for each in kept if each not in checkpoints_to_drop(kept, 4)]
    gaps = [after - before for before, after in zip([0, *kept], kept, strict=False)]
    assert kept[-1] == 4000
    assert max(gaps) <= 2000
