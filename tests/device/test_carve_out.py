"""The decoder's weights in a device's memory come back to the byte, however reading ends."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from engine.errors import NativeError
from tests.support.devices import ALL_LAYERS, ARCHS, on_device
from tests.support.sessions import (
    MakePair,
    Pair,
    attach,
    decode,
    make_plan,
    open_session,
    prompt,
    read,
    same_bits,
)


def assert_whole(session: Any, pair: Pair, device: str, checksum: int) -> None:
    session.reset_cancel()
    assert session.decoder_checksum() == checksum
    fresh = on_device(pair, device)
    tokens = prompt(50, seed=9)
    assert same_bits(
        read(session, tokens, with_prefiller=False), read(fresh, tokens, with_prefiller=False)
    )
    assert decode(session, 4)[0] == decode(fresh, 4)[0]


def opened(pair: Pair, device: str, plan: Any) -> tuple[Any, int]:
    """A session, and the checksum of its decoder from before the prefiller."""
    session = open_session(pair.decoder, micro_batch=64, gpu_layers=ALL_LAYERS, devices=[device])
    checksum = session.decoder_checksum()
    attach(session, pair, plan)
    assert session.prefill_memory.lent_bytes > 0
    return session, checksum


@pytest.mark.parametrize("arch", ARCHS)
def test_the_decoder_is_whole_after_every_prompt(
    pair_of: MakePair, device_name: str, arch: str
) -> None:
    pair = pair_of(arch)
    session, checksum = opened(pair, device_name, make_plan())
    for length in (40, 64, 150):
        session.keep(0)
        session.prefill(prompt(length), True)
        assert session.decoder_checksum() == checksum
    assert_whole(session, pair, device_name, checksum)


@pytest.mark.parametrize("block", (0, 1, 3))
@pytest.mark.parametrize("where", ("on_upload", "on_compute"))
def test_after_a_cancel(pair_of: MakePair, device_name: str, where: str, block: int) -> None:
    pair = pair_of("llama")
    sessions: list[Any] = []

    def stop(at: int) -> None:
        if at == block:
            threading.Thread(target=sessions[0].cancel).start()
            time.sleep(0.01)

    plan = make_plan()
    setattr(plan, where, stop)
    session, checksum = opened(pair, device_name, plan)
    sessions.append(session)
    with pytest.raises(NativeError) as caught:
        session.prefill(prompt(200), True)
    sessions.clear()
    assert caught.value.code == "cancelled"
    assert_whole(session, pair, device_name, checksum)


@pytest.mark.parametrize("asynchronous", (True, False))
@pytest.mark.parametrize("at", range(0, 84, 13))
def test_after_an_upload_that_fails(
    pair_of: MakePair, device_name: str, at: int, asynchronous: bool
) -> None:
    """At any tensor of any block of any pass; the next prompt is read as ever."""
    pair = pair_of("llama")
    uploads = iter(range(1000))

    def fail(_block: int) -> None:
        if next(uploads) == at:
            raise ZeroDivisionError("an upload fails")

    plan = make_plan(on_upload=fail, asynchronous=asynchronous)
    session, checksum = opened(pair, device_name, plan)
    with pytest.raises(ZeroDivisionError, match="an upload fails"):
        session.prefill(prompt(190), True)
    kept = len(session.cached_tokens)  # whole passes
    assert kept <= 190 * (at // 28) / 3 + 1 and session.cached_tokens == prompt(190)[:kept]
    assert_whole(session, pair, device_name, checksum)
    resident = on_device(pair, device_name, make_plan("resident"))
    tokens = prompt(100)
    assert same_bits(
        read(session, tokens, with_prefiller=True), read(resident, tokens, with_prefiller=True)
    )


def slow(seconds: float) -> Callable[[int], None]:
    return lambda _block: time.sleep(seconds)


@pytest.mark.parametrize("asynchronous", (True, False))
@pytest.mark.parametrize("upload_s", (0, 0.002))
@pytest.mark.parametrize("compute_s", (0, 0.02))
def test_delays_on_either_side_change_nothing(
    pair_of: MakePair, device_name: str, upload_s: float, compute_s: float, asynchronous: bool
) -> None:
    """Slow uploads: compute must wait. Slow compute: uploads must not take its slot."""
    pair = pair_of("qwen3")
    plan = make_plan(
        on_upload=slow(upload_s), on_compute=slow(compute_s), asynchronous=asynchronous
    )
    session, checksum = opened(pair, device_name, plan)
    resident = on_device(pair, device_name, make_plan("resident"))
    for length in (40, 150):
        tokens = prompt(length)
        assert same_bits(
            read(session, tokens, with_prefiller=True), read(resident, tokens, with_prefiller=True)
        )
    assert session.decoder_checksum() == checksum


def test_uploads_and_compute_overlap(pair_of: MakePair, device_name: str) -> None:
    """With each block's upload and compute slowed down, the next block is under way meanwhile."""
    pair = pair_of("llama")
    plan = make_plan(on_upload=slow(0.004), on_compute=slow(0.03), trace_limit=1000)
    session, _ = opened(pair, device_name, plan)
    session.prefill(prompt(150), True)
    events = session.stream_events
    assert {event.kind for event in events} >= {"load", "upload", "compute"}
    computes = [event for event in events if event.kind == "compute"]
    uploads = {(e.pass_index, e.block): e for e in events if e.kind == "upload"}
    assert len(computes) == len(uploads) == 3 * 4
    overlapping = 0
    for now, after in itertools.pairwise(computes):
        upload = uploads[after.pass_index, after.block]
        overlapping += upload.start < now.end and now.start < upload.end
    assert overlapping == len(computes) - 1
