"""What the cache keeps, forgets and restores; and that what is read on top of it is right."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from engine.errors import NativeError
from tests.support.sessions import (
    MakePair,
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

TRUNCATABLE = ("llama", "qwen2", "qwen3")
# The library rounds products of few rows otherwise than those of many (it alone differs by 0.11 in
# the same reading of these models); a wrong prefix differs by several.
ROUNDING = 0.3


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises(NativeError) as caught:
        call()
    return caught.value.code


@pytest.mark.parametrize("with_prefiller", (True, False))
@pytest.mark.parametrize("arch", TRUNCATABLE)
def test_a_kept_prefix_serves_as_one_that_was_just_read(
    pair_of: MakePair, arch: str, with_prefiller: bool
) -> None:
    """Equal to the bit, as the batches have the same widths in both sessions."""
    pair, tokens = pair_of(arch), prompt(200)
    session, fresh = attached(pair), attached(pair)
    session.prefill(tokens[:100], with_prefiller)
    session.prefill(prompt(90, seed=2), with_prefiller)
    session.feed(4)
    assert session.keep(100) == 100
    assert session.cached_tokens == tokens[:100]
    for one in (session, fresh):
        if one is fresh:
            one.prefill(tokens[:100], with_prefiller)
        one.prefill(tokens[100:], with_prefiller)
    assert same_bits(session.logits(), fresh.logits())
    assert decode(session, 4)[0] == decode(fresh, 4)[0]


@pytest.mark.parametrize("kept", (1, 33, 150, 199))
@pytest.mark.parametrize("arch", TRUNCATABLE)
def test_a_prefix_of_any_length_can_be_kept(pair_of: MakePair, arch: str, kept: int) -> None:
    pair, tokens = pair_of(arch), prompt(200)
    session = open_session(pair.decoder)
    wanted = read(session, tokens, with_prefiller=False)
    assert session.keep(kept) == kept
    session.prefill(tokens[kept:], False)
    assert distance(session.logits(), wanted) < ROUNDING


@pytest.mark.parametrize("arch", sorted(set(ARCHS) - set(TRUNCATABLE)))
def test_other_models_go_back_to_checkpoints(pair_of: MakePair, arch: str) -> None:
    pair, tokens = pair_of(arch), prompt(700)
    session, fresh = (attached(pair, micro_batch=100) for _ in range(2))
    assert not session.can_truncate
    for start in (0, 100, 200):
        session.prefill(tokens[start : start + 100], True)
        fresh.prefill(tokens[start : start + 100], True)
        session.save_checkpoint()
    session.prefill(tokens[300:], True)
    fresh.prefill(prompt(100, seed=3), True)
    assert session.checkpoints == [100, 200, 300]

    for asked, kept in ((350, 300), (300, 300), (299, 200)):
        assert session.keep(asked) == kept
        assert session.cached_tokens == tokens[:kept]
        assert session.checkpoints == [at for at in (100, 200, 300) if at <= kept]
        again = tokens[kept:300]
        if again:
            session.prefill(again, True)
        session.save_checkpoint()
        session.prefill(prompt(100, seed=3), True)
        if arch == "gemma3":  # a window's cells lie in another order, and so are summed in it
            assert distance(session.logits(), fresh.logits()) < ROUNDING
        else:
            assert same_bits(session.logits(), fresh.logits())
        session.prefill(prompt(300, seed=4), True)
        decode(session, 3)
    assert session.keep(99) == 0
    assert session.cached_tokens == []
    assert session.checkpoints == []


def test_a_sliding_window_goes_back_as_far_as_it_is_held(pair_of: MakePair) -> None:
    """The cache keeps a window and a micro-batch of tokens, so recent places need no checkpoint."""
    pair, tokens = pair_of("gemma3"), prompt(700)
    session = attached(pair, micro_batch=100)
    session.prefill(tokens, True)
    reached: list[int] = []
    for asked in range(699, 0, -40):
        kept = session.keep(asked)
        assert kept in (asked, 0)
        if kept == 0:
            break
        reached.append(kept)
        session.prefill(prompt(40, seed=2), True)
        fresh = attached(pair, micro_batch=100)
        fresh.prefill(tokens[:kept], True)
        fresh.prefill(prompt(40, seed=2), True)
        assert distance(session.logits(), fresh.logits()) < ROUNDING
    assert 350 < reached[-1] < 650
    assert session.cached_tokens == []


def test_a_sliding_window_takes_no_memory_for_what_it_cannot_see(pair_of: MakePair) -> None:
    small = open_session(pair_of("gemma3").decoder, n_ctx=4096, micro_batch=128)
    large = open_session(pair_of("gemma3").decoder, n_ctx=8192, micro_batch=128)
    blocks, seeing_all, bytes_a_token = 6, 1, 2 * 64 * 2  # keys and values, of 64 halves each
    grown = large.memory.context - small.memory.context
    assert grown == 4096 * seeing_all * bytes_a_token
    assert small.memory.context < 4096 * blocks * bytes_a_token / 3


@pytest.mark.parametrize("arch", ("qwen35", "gemma3"))
def test_a_checkpoint_survives_answers_and_cancelled_prompts(pair_of: MakePair, arch: str) -> None:
    pair, tokens = pair_of(arch), prompt(300)
    session, fresh = attached(pair, micro_batch=100), attached(pair, micro_batch=100)
    for one in (session, fresh):
        one.prefill(tokens[:150], True)
        one.save_checkpoint()
    decode(session, 30)
    session.cancel()
    assert code_of(lambda: session.feed(1)) == "cancelled"
    session.reset_cancel()
    assert session.keep(150) == 150
    for _ in range(3):
        with pytest.raises(NativeError, match="cancelled"):
            session.prefill(tokens[150:], True, lambda _: False)
        session.reset_cancel()
        assert session.keep(150) == 150
    for one in (session, fresh):
        one.prefill(tokens[150:], True)
    assert same_bits(session.logits(), fresh.logits())


def test_a_checkpoint_is_saved_once_for_a_place_and_can_be_dropped(pair_of: MakePair) -> None:
    session = open_session(pair_of("qwen35").decoder)
    session.save_checkpoint()
    assert session.checkpoints == []
    session.prefill(prompt(40), False)
    session.save_checkpoint()
    session.save_checkpoint()
    session.feed(1)
    session.save_checkpoint()
    assert session.checkpoints == [40, 41]
    session.drop_checkpoint(40)
    session.drop_checkpoint(12345)
    assert session.checkpoints == [41]


def test_models_that_can_truncate_need_no_checkpoints(pair_of: MakePair) -> None:
    session = open_session(pair_of("llama").decoder)
    assert session.can_truncate
    session.prefill(prompt(40), False)
    session.save_checkpoint()
    assert session.checkpoints == []


@pytest.mark.parametrize("arch", ARCHS)
def test_keeping_all_or_more_changes_nothing(pair_of: MakePair, arch: str) -> None:
    session = attached(pair_of(arch))
    wanted = read(session, prompt(50), with_prefiller=True)
    assert session.keep(50) == 50
    assert session.keep(999) == 50
    assert same_bits(session.logits(), wanted)
    decode(session, 2)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("with_prefiller", (True, False))
def test_a_full_context_refuses_with_the_numbers_and_keeps_what_it_has(
    pair_of: MakePair, arch: str, with_prefiller: bool
) -> None:
    session = attached(pair_of(arch), n_ctx=256, micro_batch=64)
    assert session.n_ctx == 256
    session.prefill(prompt(200), with_prefiller)
    with pytest.raises(NativeError) as caught:
        session.prefill(prompt(57), with_prefiller)
    assert caught.value.code == "session.context_full"
    assert caught.value.data == {"n_ctx": 256, "cached": 200, "tokens": 57}
    session.prefill(prompt(55), with_prefiller)
    session.feed(1)
    assert len(session.cached_tokens) == 256
    assert code_of(lambda: session.feed(1)) == "session.context_full"
    assert code_of(lambda: session.prefill([1], with_prefiller)) == "session.context_full"
    assert len(session.cached_tokens) == 256


@pytest.mark.parametrize("arch", ARCHS)
def test_tokens_that_the_model_does_not_have_are_refused(pair_of: MakePair, arch: str) -> None:
    session = attached(pair_of(arch))
    wanted = read(session, prompt(50), with_prefiller=True)
    for token in (-1, session.n_vocab, 2**31 - 1):
        for with_prefiller in (True, False):
            session.keep(0)
            call = lambda: session.prefill([*prompt(49), token], with_prefiller)  # noqa: B023,E731
            assert code_of(call) == "session.evaluation_failed"
        assert code_of(lambda: session.feed(token)) == "session.evaluation_failed"  # noqa: B023
    assert same_bits(read(session, prompt(50), with_prefiller=True), wanted)


def test_there_are_no_logits_of_what_was_forgotten(pair_of: MakePair) -> None:
    """Sampling from them would answer another prompt."""
    session = attached(pair_of("llama"))
    decoding: tuple[Callable[[], object], ...] = (session.logits, lambda: decode(session, 1))
    for call in decoding:
        assert code_of(call) == "session.nothing_read"
    session.prefill(prompt(60), True)
    session.keep(40)
    for call in decoding:
        assert code_of(call) == "session.nothing_read"
    session.prefill([5], True)
    decode(session, 2)


def test_an_empty_prompt_reads_nothing(pair_of: MakePair) -> None:
    session = attached(pair_of("llama"))
    report = session.prefill([], True)
    assert (report.tokens, report.passes, report.used_prefiller) == (0, 0, False)
    assert session.cached_tokens == []


def test_only_the_owner_may_use_a_session(pair_of: MakePair) -> None:
    pair = pair_of("llama")
    session = attached(pair)
    wanted = read(session, prompt(40), with_prefiller=True)
    calls: dict[str, Callable[[], object]] = {
        "prefill": lambda: session.prefill(prompt(40), True),
        "feed": lambda: session.feed(1),
        "next_token": session.next_token,
        "logits": session.logits,
        "keep": lambda: session.keep(0),
        "detach": session.detach,
        "save_checkpoint": session.save_checkpoint,
        "drop_checkpoint": lambda: session.drop_checkpoint(1),
        "checkpoints": lambda: session.checkpoints,
        "cached_tokens": lambda: session.cached_tokens,
        "decoder_checksum": session.decoder_checksum,
        "restore_decoder": session.restore_decoder,
    }
    codes: dict[str, str] = {}

    def use() -> None:
        for name, call in calls.items():
            try:
                call()
            except NativeError as error:
                codes[name] = error.code

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert codes == dict.fromkeys(calls, "session.wrong_thread")
    assert same_bits(session.logits(), wanted)


@pytest.mark.parametrize("path", ("resident", "odp"))
def test_progress_counts_up_to_what_was_asked_for(pair_of: MakePair, path: str) -> None:
    seen: list[tuple[Any, ...]] = []

    def progress(state: Any) -> bool:
        seen.append((state.pass_index, state.tokens_done, state.blocks_done, state.bytes_read))
        assert (state.tokens_total, state.passes, state.blocks_total) == (300, 3, 4)
        return True

    session = attached(pair_of("llama"), make_plan(path), micro_batch=100)
    report = session.prefill(prompt(300), True, progress)
    assert seen[-1][1] == 300
    assert seen == sorted(seen)
    assert seen[-1][3] == report.bytes_read
    assert (report.bytes_read > 0) == (path == "odp")
