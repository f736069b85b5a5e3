"""Cancelling from another thread, at any moment: back within a second, and nothing is spoilt."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from engine.errors import NativeError
from tests.support.sessions import (
    MakePair,
    attach,
    attached,
    decode,
    decoder_files,
    make_plan,
    open_session,
    prefiller_files,
    prompt,
    read,
    same_bits,
)

TIMES = 100
PATHS = ("decoder", "resident", "odp")


def seconds_until_back(session: Any, delay: float, call: Callable[[], object]) -> float | None:
    """How long `call` still took after cancel() came; None if it was done before."""
    cancelled_at: list[float] = []

    def cancel() -> None:
        cancelled_at.append(time.perf_counter())
        session.cancel()

    session.reset_cancel()
    timer = threading.Timer(delay, cancel)
    timer.start()
    try:
        call()
        back = None
    except NativeError as error:
        back = time.perf_counter()
        assert error.code == "cancelled"
    finally:
        timer.join()
        session.reset_cancel()
    return None if back is None else back - cancelled_at[0]


def duration(call: Callable[[], object]) -> float:
    """Of the quickest of three calls."""
    times: list[float] = []
    for _ in range(3):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return min(times)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ("llama", "qwen35"))
@pytest.mark.parametrize("path", PATHS)
def test_reading_a_prompt_a_hundred_times(pair_of: MakePair, arch: str, path: str) -> None:
    pair, chance = pair_of(arch), random.Random(path)
    long, short = prompt(400), prompt(40, seed=5)
    with_prefiller = path != "decoder"
    session = attached(pair, make_plan(path), micro_batch=128)
    fresh = attached(pair, make_plan(path), micro_batch=128)
    checksum = fresh.decoder_checksum()
    wanted = read(fresh, short, with_prefiller=with_prefiller)
    answer = decode(fresh, 3)[0]
    full = duration(lambda: read(session, long, with_prefiller=with_prefiller))

    hits = 0
    for _ in range(TIMES):
        session.keep(0)
        delay = chance.uniform(0, full)
        late = seconds_until_back(session, delay, lambda: session.prefill(long, with_prefiller))
        hits += late is not None
        assert late is None or late < 1
        assert session.cached_tokens == long[: len(session.cached_tokens)]
        assert same_bits(read(session, short, with_prefiller=with_prefiller), wanted)
        assert decode(session, 3)[0] == answer
    assert session.decoder_checksum() == checksum
    assert hits > TIMES / 10


@pytest.mark.slow
@pytest.mark.parametrize("arch", ("llama", "qwen35"))
def test_writing_an_answer_a_hundred_times(pair_of: MakePair, arch: str) -> None:
    pair, chance = pair_of(arch), random.Random(arch)
    tokens = prompt(40)
    session, fresh = attached(pair), attached(pair)
    wanted = read(fresh, tokens, with_prefiller=True)
    answer = decode(fresh, 4)[0]
    read(session, tokens, with_prefiller=True)
    full = duration(lambda: decode(session, 30))

    hits = 0
    for _ in range(TIMES):
        assert same_bits(read(session, tokens, with_prefiller=True), wanted)
        late = seconds_until_back(session, chance.uniform(0, full), lambda: decode(session, 30))
        hits += late is not None
        assert late is None or late < 1
        cached = session.cached_tokens
        assert cached[: len(tokens)] == tokens[: len(cached)]
        assert same_bits(read(session, tokens, with_prefiller=True), wanted)
        assert decode(session, 4)[0] == answer
    assert hits > TIMES / 10


def test_a_cancelled_prompt_keeps_the_passes_that_were_whole(pair_of: MakePair) -> None:
    pair, tokens = pair_of("llama"), prompt(300)
    session, fresh = attached(pair, micro_batch=100), attached(pair, micro_batch=100)

    def stop(state: Any) -> bool:
        time.sleep(0.06)
        return state.pass_index < 1

    with pytest.raises(NativeError, match="cancelled"):
        session.prefill(tokens, True, stop)
    session.reset_cancel()
    assert session.cached_tokens == tokens[:100]
    session.prefill(tokens[100:], True)
    assert same_bits(session.logits(), read(fresh, tokens, with_prefiller=True))


def test_a_cancel_before_the_call_holds_until_it_is_reset(pair_of: MakePair) -> None:
    session = attached(pair_of("llama"))
    session.cancel()
    for with_prefiller in (False, True):
        with pytest.raises(NativeError, match="cancelled"):
            session.prefill(prompt(40), with_prefiller)
    session.reset_cancel()
    assert session.prefill(prompt(40), True).tokens == 40
    session.cancel()
    with pytest.raises(NativeError, match="cancelled"):
        session.feed(1)
    session.reset_cancel()
    session.feed(1)
    assert session.cached_tokens == [*prompt(40), 1]


@pytest.mark.parametrize("how", ("cancel", "callback"))
def test_loading_a_prefiller_stops_and_leaves_none_attached(pair_of: MakePair, how: str) -> None:
    pair = pair_of("llama")
    session = open_session(pair.decoder)
    checksum = session.decoder_checksum()
    seen: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> bool:
        seen.append((done, total))
        if how == "cancel":
            session.cancel()
        return how == "cancel"

    files = prefiller_files(pair.prefiller), decoder_files(pair.decoder)
    with pytest.raises(NativeError, match="cancelled"):
        session.attach(*files, make_plan("resident"), progress)
    assert len(seen) <= 2
    assert 0 < seen[0][0] < seen[0][1]
    assert not session.attached
    session.reset_cancel()
    assert not session.prefill(prompt(40), True).used_prefiller
    attach(session, pair, make_plan("resident"))
    assert session.decoder_checksum() == checksum
