"""Which weights a batch is computed with: never those of a graph built for another phase."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.sessions import (
    SHORTEST,
    MakePair,
    attach,
    attached,
    decode,
    distance,
    make_plan,
    open_session,
    prompt,
    read,
    same_bits,
)
from tests.support.tiny_models import ARCHS

PATHS = ("resident", "odp")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("width", (SHORTEST, 100))
def test_the_same_width_in_one_phase_after_the_other(
    pair_of: MakePair, arch: str, width: int, path: str
) -> None:
    """The library reuses a graph where the next batch has the same shape."""
    pair, tokens = pair_of(arch), prompt(width)
    by_decoder = read(open_session(pair.decoder), tokens, with_prefiller=False)
    by_prefiller = read(attached(pair, make_plan(path)), tokens, with_prefiller=True)
    assert distance(by_decoder, by_prefiller) > 0.1
    session = attached(pair, make_plan(path))
    for with_prefiller in (True, False, True, True, False, False, True):
        found = read(session, tokens, with_prefiller=with_prefiller)
        assert same_bits(found, by_prefiller if with_prefiller else by_decoder)


@pytest.mark.parametrize("arch", ARCHS)
def test_a_prompt_of_one_token_and_an_answers_token_are_the_decoders(
    pair_of: MakePair, arch: str
) -> None:
    pair = pair_of(arch)
    session, plain = attached(pair), open_session(pair.decoder)
    report = session.prefill([7], True)
    assert not report.used_prefiller
    plain.prefill([7], False)
    assert same_bits(session.logits(), plain.logits())
    for one in (session, plain):
        one.feed(8)
        one.prefill([9], False)
        one.feed(10)
    assert same_bits(session.logits(), plain.logits())
    assert decode(session, 4)[0] == decode(plain, 4)[0]


@pytest.mark.parametrize("length", range(1, SHORTEST))
def test_short_tails_are_read_by_the_decoder(pair_of: MakePair, length: int) -> None:
    pair = pair_of("llama")
    session, plain = attached(pair), open_session(pair.decoder)
    report = session.prefill(prompt(length), True)
    assert not report.used_prefiller
    assert (report.tokens, report.bytes_read) == (length, 0)
    assert same_bits(session.logits(), read(plain, prompt(length), with_prefiller=False))


def test_from_the_shortest_length_on_the_prefiller_reads(pair_of: MakePair) -> None:
    session = attached(pair_of("llama"))
    assert session.prefill(prompt(SHORTEST), True).used_prefiller
    session.keep(0)
    assert not session.prefill(prompt(SHORTEST), False).used_prefiller


@pytest.mark.parametrize("path", PATHS)
def test_a_tail_after_a_prefilled_prompt_is_the_decoders(pair_of: MakePair, path: str) -> None:
    """Read as one answer's tokens would be: from the prefiller's cache, with the decoder."""
    pair = pair_of("llama")
    tailed, fed = attached(pair, make_plan(path)), attached(pair, make_plan("resident"))
    for session in (tailed, fed):
        session.prefill(prompt(64), True)
    tailed.prefill([5], True)
    fed.feed(5)
    assert same_bits(tailed.logits(), fed.logits())


def test_a_session_without_a_prefiller_reads_with_the_decoder(pair_of: MakePair) -> None:
    pair = pair_of("llama")
    session, plain = open_session(pair.decoder), open_session(pair.decoder)
    assert not session.prefill(prompt(64), True).used_prefiller
    assert same_bits(session.logits(), read(plain, prompt(64), with_prefiller=False))


def test_detaching_leaves_the_decoder_alone_and_attaching_again_works(pair_of: MakePair) -> None:
    pair, tokens = pair_of("llama"), prompt(64)
    session = open_session(pair.decoder)
    by_decoder = read(session, tokens, with_prefiller=False)
    found: list[Any] = []
    for plan in (make_plan(), make_plan("resident"), make_plan(slots=1), make_plan(slots=4)):
        attach(session, pair, plan)
        found.append(read(session, tokens, with_prefiller=True))
        assert same_bits(read(session, tokens, with_prefiller=False), by_decoder)
        session.detach()
        session.detach()
        assert not session.attached
        assert session.prefill_memory.slots == 0
        assert same_bits(read(session, tokens, with_prefiller=True), by_decoder)
    assert all(same_bits(one, found[0]) for one in found)


def test_two_models_in_one_process_do_not_mix(pair_of: MakePair) -> None:
    """Each has its own tables, slots and carve-out, in turn and interleaved."""
    archs = ("llama", "qwen35", "gemma3")
    alone = [read(attached(pair_of(arch)), prompt(80), with_prefiller=True) for arch in archs]
    sessions = [attached(pair_of(arch)) for arch in (*archs, *archs)]
    for _ in range(3):
        for session in sessions:
            session.keep(0)
            session.prefill(prompt(80), True)
        for number, session in enumerate(sessions):
            assert same_bits(session.logits(), alone[number % 3])
            session.feed(3)
