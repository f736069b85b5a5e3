"""Drafted tokens: what they leave behind; and that an answer does not show that they were."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from engine.errors import NativeError
from engine.native import native
from tests.support.sessions import (
    MakePair,
    attached,
    distance,
    make_plan,
    open_session,
    prompt,
    read,
)

ARCHS = ("llama", "gemma3", "qwen35")
SNAPSHOTS = 5  # of recurrent states, for the hybrid
ROUNDING = 0.3  # see test_cache.py


def session_of(pair_of: MakePair, arch: str, **options: Any) -> Any:
    snapshots = SNAPSHOTS if arch == "qwen35" else 0
    return open_session(pair_of(arch).decoder, snapshots=snapshots, **options)


def repetitive(length: int) -> list[int]:
    """Text that tiny models go on with as before: drafts that are right are among it."""
    return (prompt(12, seed=5) * (length // 12 + 1))[:length]


def sampler(temperature: float, seed: int = 3, **others: Any) -> Any:
    params = native().SamplerParams()
    params.temperature, params.seed = temperature, seed
    for name, value in others.items():
        setattr(params, name, value)
    return params


def write(
    session: Any, count: int, params: Any, always: int, grammar: str | None = None
) -> list[int]:
    session.keep(0)
    session.prefill(repetitive(90), False)
    session.use_drafts(always > 0, always)
    session.start_sampling(params)
    if grammar:
        session.constrain(grammar)
    return [session.next_token() for _ in range(count)]


@pytest.mark.parametrize("arch", ARCHS)
def test_guesses_taken_back_leave_the_cache_of_a_fresh_reading(
    pair_of: MakePair, arch: str
) -> None:
    """Random guesses, of which a random number come true, across sliding windows and passes."""
    chance = random.Random(7)
    session, fresh = (session_of(pair_of, arch, micro_batch=64) for _ in range(2))
    tokens = prompt(70, seed=2)
    session.prefill(tokens, False)
    most = session.most_drafted
    assert most == (SNAPSHOTS if arch == "qwen35" else 15)
    for step in range(60):
        guesses = [chance.randrange(256) for _ in range(chance.choice([0, 1, 2, most - 1, most]))]
        token = chance.randrange(256)
        session.feed(token, guesses)
        tokens.append(token)
        for guess in guesses[: chance.randint(0, len(guesses))]:
            session.feed(guess)
            tokens.append(guess)
        assert session.cached_tokens == tokens
        if step % 12 == 11:
            assert distance(session.logits(), read(fresh, tokens, with_prefiller=False)) < ROUNDING
            if arch == "qwen35":  # the state itself, after what was taken back
                session.save_checkpoint()
                session.prefill(prompt(40, seed=step), False)
                assert session.keep(len(tokens)) == len(tokens)
            session.prefill([9, 8, 7], False)
            tokens += [9, 8, 7]
            assert distance(session.logits(), read(fresh, tokens, with_prefiller=False)) < ROUNDING


@pytest.mark.parametrize("temperature", (0.0, 1.0))
@pytest.mark.parametrize("arch", ARCHS)
def test_the_tokens_of_a_seed_are_the_same_with_drafts(
    pair_of: MakePair, arch: str, temperature: float
) -> None:
    """Also when a few letters are all that may be written: some drafts of them are right."""
    session = session_of(pair_of, arch)
    drafted = accepted = 0
    for grammar in (None, "root ::= [abc]*"):
        params = sampler(temperature, repeat_penalty=1.1, penalty_last_n=8, top_k=3)
        plain = write(session, 80, params, 0, grammar)
        assert session.draft_statistics.verifications == 0
        for always in (1, 15):
            assert write(session, 80, params, always, grammar) == plain
            drafted += session.draft_statistics.drafted
            accepted += session.draft_statistics.accepted
    assert drafted > accepted > 0


def test_a_repeating_answer_takes_fewer_passes_than_tokens(pair_of: MakePair) -> None:
    session = session_of(pair_of, "llama")
    write(session, 200, sampler(0.0), 8, 'root ::= ("a quote")*')
    done = session.draft_statistics
    assert done.accepted_at[0] >= done.accepted_at[1] >= done.accepted_at[7]
    assert sum(done.accepted_at) == done.accepted <= done.drafted == sum(done.drafted_at)
    assert done.tau == 1 + done.accepted / done.verifications > 2
    assert done.tokens == done.accepted + done.verifications + done.plain_passes


@pytest.mark.parametrize("arch", ARCHS)
def test_an_answer_that_ends_within_a_draft_leaves_nothing_of_it(
    pair_of: MakePair, arch: str
) -> None:
    session, fresh = (session_of(pair_of, arch) for _ in range(2))
    for count in range(20, 30):
        written = write(session, count, sampler(0.0), 7)
        known = [*repetitive(90), *written[:-1]]
        assert session.cached_tokens == known
        session.use_drafts(False)
        session.prefill([1, 2, 3], False)
        wanted = read(fresh, [*known, 1, 2, 3], with_prefiller=False)
        assert distance(session.logits(), wanted) < ROUNDING


@pytest.mark.parametrize("path", ("odp", "resident"))
def test_what_a_prefiller_read_is_drafted_from_and_verified_by_the_decoder(
    pair_of: MakePair, path: str
) -> None:
    session = attached(pair_of("llama"), make_plan(path))

    def answer(always: int) -> list[int]:
        session.keep(0)
        session.prefill(repetitive(90), True)
        session.use_drafts(always > 0, always)
        session.start_sampling(sampler(0.0))
        return [session.next_token() for _ in range(60)]

    assert answer(0) == answer(6)
    assert session.draft_statistics.drafted > 0


def test_a_grammar_that_begins_within_a_draft_counts_from_there(pair_of: MakePair) -> None:
    session = session_of(pair_of, "llama")
    answers = []
    for always in (0, 9):
        first = write(session, 30, sampler(0.0), always)
        session.constrain('root ::= "abc" [0-9]+')
        answers.append([*first, *(session.next_token() for _ in range(8))])
    assert answers[0] == answers[1]
    assert answers[1][30:33] == session.tokenize("abc", False, False)


def test_the_context_is_used_to_its_end_and_no_further(pair_of: MakePair) -> None:
    session = session_of(pair_of, "llama", n_ctx=256)
    room = session.n_ctx - 90
    write(session, room + 1, sampler(0.0), 15)
    with pytest.raises(NativeError) as caught:
        session.next_token()
    assert caught.value.code == "session.context_full"


def test_without_snapshots_a_hybrid_drafts_nothing(pair_of: MakePair) -> None:
    session = open_session(pair_of("qwen35").decoder)
    assert session.most_drafted == 0
    write(session, 40, sampler(0.0), 8)
    assert session.draft_statistics.drafted == 0


@pytest.mark.parametrize("grammar", (None, 'root ::= "a" | "b" | "q"'))
@pytest.mark.parametrize("temperature", (0.0, 2.0))
def test_the_distribution_is_that_of_the_samples(
    pair_of: MakePair, temperature: float, grammar: str | None
) -> None:
    session = session_of(pair_of, "llama")
    session.prefill(prompt(40), False)
    counts = np.zeros(session.n_vocab)
    chances = counts
    for seed in range(600):
        session.start_sampling(sampler(temperature, seed, top_k=12, top_p=0.9))
        if grammar:
            session.constrain(grammar)
        if seed == 0:
            chances = session.distribution()
        counts[session.next_token()] += 1
    assert abs(chances.sum() - 1) < 1e-5
    assert set(np.flatnonzero(counts)) <= set(np.flatnonzero(chances))
    expected = chances * 600
    kept = expected > 5
    statistic = ((counts - expected)[kept] ** 2 / expected[kept]).sum()
    assert statistic < 50  # at most 11 degrees of freedom: beyond chance
