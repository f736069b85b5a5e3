"""A second model that drafts: the answer is the target's, whatever the drafter is."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.errors import NativeError
from engine.gguf.splits import open_model
from engine.native import native
from tests.support.sessions import MakePair, distance, open_session, prompt
from tests.support.tiny_models import write_tiny

ARCHS = ("llama", "gemma3", "qwen35")
SNAPSHOTS = 5  # of recurrent states, for the hybrid
ROUNDING = 0.3  # see test_cache.py


def add_drafter(session: Any, path: Path) -> None:
    model = native().ModelParams()
    model.paths = [str(path)]
    session.draft_with(model)


def session_of(pair_of: MakePair, arch: str, drafter: Path | None = None, **options: Any) -> Any:
    session = open_session(
        pair_of(arch).decoder, snapshots=SNAPSHOTS if arch == "qwen35" else 0, **options
    )
    add_drafter(session, drafter or pair_of("llama").decoder)
    return session


def sampler(temperature: float, seed: int = 3, **others: Any) -> Any:
    params = native().SamplerParams()
    params.temperature, params.seed = temperature, seed
    for name, value in others.items():
        setattr(params, name, value)
    return params


def write(session: Any, count: int, params: Any, always: int, *, drawn: bool = False) -> list[int]:
    proposals = native().Proposals
    session.keep(0)
    session.prefill(prompt(90), False)
    session.use_drafts(always > 0, always, proposals.drawn if drawn else proposals.likeliest)
    session.start_sampling(params)
    return [session.next_token() for _ in range(count)]


@pytest.mark.parametrize("temperature", (0.0, 1.0))
@pytest.mark.parametrize("arch", ARCHS)
def test_the_tokens_of_a_seed_are_the_same_with_likely_drafts(
    pair_of: MakePair, arch: str, temperature: float
) -> None:
    """A drafter that is the target itself, and one that knows nothing."""
    params = sampler(temperature, repeat_penalty=1.1, penalty_last_n=8, top_k=3)
    for drafter, right in ((pair_of(arch).decoder, True), (pair_of("llama").source, False)):
        session = session_of(pair_of, arch, drafter)
        plain = write(session, 60, params, 0)
        for always in (1, 15):
            assert write(session, 60, params, always) == plain
            done = session.draft_statistics
            assert done.drafted > done.accepted
            if right:
                assert done.accepted_at[0] > 0.3 * done.drafted_at[0]


def test_a_target_that_drafts_for_itself_is_right_at_every_position(pair_of: MakePair) -> None:
    """At any length: no position and no token is off by one."""
    session = session_of(pair_of, "llama", n_ctx=4096)
    for length in (64, 256, 1024, 3072):
        session.keep(0)
        session.prefill(prompt(length, seed=length), False)
        session.use_drafts(True, 4)
        session.start_sampling(sampler(0.0))
        for _ in range(100):
            session.next_token()
        done = session.draft_statistics
        pairs = zip(done.accepted_at, done.drafted_at, strict=True)
        shares = [accepted / drafted for accepted, drafted in pairs if drafted]
        assert len(shares) == 4
        assert min(shares) > 0.9, (length, shares)  # but for near-ties


@pytest.mark.parametrize("arch", ARCHS)
def test_what_a_drafter_takes_back_leaves_no_trace_in_its_cache(
    pair_of: MakePair, arch: str
) -> None:
    """After many random acceptances a target that drafts for itself is still right, and its own
    cache as well."""
    chance = random.Random(5)
    session = session_of(pair_of, arch, pair_of(arch).decoder)
    plain = open_session(pair_of(arch).decoder)
    for one in (session, plain):
        one.prefill(prompt(70, seed=2), False)
    session.use_drafts(True, 5)
    drafted = accepted = 0
    for step in range(60):
        # Answers at temperature 2 take drafts by chance, and end anywhere in them.
        greedy = step % 6 == 5
        count, gone, more = 25 if greedy else chance.randint(1, 9), chance.randint(1, 20), step + 1
        for one in (session, plain):
            one.start_sampling(sampler(0.0 if greedy else 2.0, seed=step))
            for _ in range(count):
                one.next_token()
        drafted += session.draft_statistics.drafted if greedy else 0
        accepted += session.draft_statistics.accepted if greedy else 0
        for one in (session, plain) if greedy else ():
            one.keep(len(one.cached_tokens) - gone)
            one.prefill(prompt(more, seed=step), False)
        assert session.cached_tokens == plain.cached_tokens
    assert drafted > 150
    assert accepted > 0.7 * drafted  # but for near-ties and the answers' ends
    for one in (session, plain):
        one.prefill([1, 2, 3], False)
    assert distance(session.logits(), plain.logits()) < ROUNDING


@pytest.mark.parametrize("drafter", ("Q8_0", "Q5_0", "NVFP4"))
def test_drawn_drafts_leave_the_distribution_as_it_is(
    pair_of: MakePair, tmp_path: Path, drafter: str
) -> None:
    """The joint distribution of two tokens, of which one pass may write both; with a drafter
    that is the target itself, and with others that are more and less like it."""
    path = write_tiny(tmp_path / "d.gguf", "llama", weight_type=drafter)
    session = session_of(pair_of, "llama", path)
    params = {"top_k": 4, "top_p": 1.0, "min_p": 0.0}
    known = prompt(40)
    session.prefill(known[:-1], False)
    base = len(session.cached_tokens)

    def chances(tokens: list[int]) -> Any:
        session.use_drafts(False)
        session.keep(base)
        session.prefill([known[-1], *tokens], False)
        session.start_sampling(sampler(1.5, **params))
        return session.distribution()

    first = int(chances([]).argmax())
    expected: dict[tuple[int, int], float] = {}
    after = chances([first])
    for one in map(int, np.flatnonzero(after)):
        for two, chance in enumerate(chances([first, one])):
            if chance > 0:
                expected[one, two] = float(after[one] * chance)
    assert sum(expected.values()) == pytest.approx(1, abs=1e-4)

    samples, counts = 4000, Counter[tuple[int, int]]()
    drafted = accepted = 0
    seed = 0
    while counts.total() < samples:
        session.keep(base)
        session.prefill([known[-1]], False)
        session.use_drafts(True, 2, native().Proposals.drawn)
        session.start_sampling(sampler(1.5, seed, **params))
        seed += 1
        if session.next_token() != first:
            continue
        counts[session.next_token(), session.next_token()] += 1
        drafted += session.draft_statistics.drafted
        accepted += session.draft_statistics.accepted
    assert drafted > accepted > 0
    assert set(counts) <= set(expected)
    statistic = sum(
        (counts[pair] - chance * samples) ** 2 / (chance * samples)
        for pair, chance in expected.items()
    )
    assert len(expected) == 16
    assert statistic < 44.3  # 15 degrees of freedom at 1e-4


def test_a_drafter_of_another_vocabulary_is_refused_and_the_old_one_stays(
    pair_of: MakePair, tmp_path: Path
) -> None:
    session = session_of(pair_of, "llama")
    plain = write(session, 30, sampler(0.0), 5)
    drafted = session.draft_statistics.drafted
    other = write_tiny(tmp_path / "other.gguf", "llama", vocab=300)
    with pytest.raises(NativeError) as caught:
        add_drafter(session, other)
    assert caught.value.code == "draft.vocabulary"
    assert caught.value.data == {"theirs": 300, "ours": 288}
    assert write(session, 30, sampler(0.0), 5) == plain
    assert session.draft_statistics.drafted == drafted


def test_a_drafter_that_says_nothing_but_nan_drafts_nothing(
    pair_of: MakePair, tmp_path: Path
) -> None:
    file = tmp_path / "nan.gguf"
    data = bytearray(pair_of("llama").decoder.read_bytes())
    tensors = open_model(pair_of("llama").decoder).tensors
    norm = next(tensor for tensor in tensors if tensor.name == "output_norm.weight")
    data[norm.absolute_offset : norm.absolute_offset + norm.nbytes] = np.full(
        norm.nbytes // 4, np.nan, np.float32
    ).tobytes()
    file.write_bytes(data)
    session = session_of(pair_of, "llama", file)
    for drawn in (False, True):
        plain = write(session, 30, sampler(1.0), 0)
        assert write(session, 30, sampler(1.0), 5, drawn=drawn) == plain
        assert session.draft_statistics.drafted == 0


def test_a_drafter_of_a_short_context_goes_on_beyond_it(pair_of: MakePair, tmp_path: Path) -> None:
    short = write_tiny(tmp_path / "short.gguf", "llama", context=128)
    session = session_of(pair_of, "llama", short)
    plain = write(session, 200, sampler(0.0), 0)
    assert write(session, 200, sampler(0.0), 6) == plain
    assert session.draft_statistics.drafted > 100


def test_a_drafters_memory_is_counted(pair_of: MakePair) -> None:
    alone = open_session(pair_of("llama").decoder)
    assert alone.memory.drafter == 0
    add_drafter(alone, pair_of("llama").decoder)
    memory = alone.memory
    assert memory.weights + memory.context < memory.drafter
