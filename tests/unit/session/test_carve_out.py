"""Memory that a prompt borrows from the decoder comes back, byte for byte, however reading ends."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.errors import NativeError
from tests.support.sessions import (
    MakePair,
    Pair,
    attach,
    attached,
    decode,
    make_pair,
    make_plan,
    open_session,
    prompt,
    read,
    same_bits,
)
from tests.support.tiny_models import ARCHS


def assert_whole(session: Any, pair: Pair, checksum: int) -> None:
    """Not a byte of the decoder differs, and it goes on as a fresh session does."""
    session.reset_cancel()
    assert session.decoder_checksum() == checksum
    fresh = open_session(pair.decoder, micro_batch=session.micro_batch)
    tokens = prompt(50, seed=9)
    assert same_bits(
        read(session, tokens, with_prefiller=False), read(fresh, tokens, with_prefiller=False)
    )
    assert decode(session, 4)[0] == decode(fresh, 4)[0]


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises(NativeError) as caught:
        call()
    return caught.value.code


def stop_at(block: int, how: Callable[[], bool]) -> Callable[[Any], bool]:
    """A progress callback that acts once `block` blocks are done; reports come at intervals."""

    def progress(state: Any) -> bool:
        time.sleep(0.06)
        return how() if state.blocks_done >= block else True

    return progress


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("slots", (1, 2, 4))
def test_the_decoder_is_whole_after_every_prompt(pair_of: MakePair, arch: str, slots: int) -> None:
    pair = pair_of(arch)
    session = open_session(pair.decoder, micro_batch=64)
    before = session.decoder_checksum()
    attach(session, pair, make_plan(slots=slots))
    assert session.prefill_memory.lent_bytes > 0
    for length in (40, 64, 150):
        session.keep(0)
        session.prefill(prompt(length), True)
        assert session.decoder_checksum() == before
    assert_whole(session, pair, before)


def test_decoding_right_after_the_prompt_waits_for_the_decoder_to_be_whole(
    pair_of: MakePair,
) -> None:
    """No checksum in between, which would restore by itself."""
    pair = pair_of("llama")
    lent, alone = attached(pair), attached(pair, make_plan("resident"))
    for seed in range(20):
        for session in (lent, alone):
            session.keep(0)
            session.prefill(prompt(40, seed), True)
            session.feed(1)
        assert same_bits(lent.logits(), alone.logits())


@pytest.mark.parametrize("block", (1, 2, 3))
def test_after_a_cancelled_prompt(pair_of: MakePair, block: int) -> None:
    pair = pair_of("llama")
    session = open_session(pair.decoder)
    before = session.decoder_checksum()
    attach(session, pair)
    progress = stop_at(block, lambda: False)
    assert code_of(lambda: session.prefill(prompt(200), True, progress)) == "cancelled"
    assert session.cached_tokens == []
    assert_whole(session, pair, before)


@pytest.mark.parametrize("block", (1, 2, 3, 4))
def test_after_an_exception_in_the_progress_callback(pair_of: MakePair, block: int) -> None:
    pair = pair_of("llama")
    session = open_session(pair.decoder)
    before = session.decoder_checksum()
    attach(session, pair)

    def fail() -> bool:
        raise ZeroDivisionError("from the callback")

    with pytest.raises(ZeroDivisionError, match="from the callback"):
        session.prefill(prompt(200), True, stop_at(block, fail))
    assert session.cached_tokens in ([], prompt(200))
    assert_whole(session, pair, before)


def test_after_a_prefiller_that_was_cut_short(own_pair: Pair) -> None:
    session = open_session(own_pair.decoder)
    before = session.decoder_checksum()
    attach(session, own_pair)
    os.truncate(own_pair.prefiller, own_pair.prefiller.stat().st_size // 2)
    assert code_of(lambda: session.prefill(prompt(60), True)) == "disk.file_changed"
    assert session.cached_tokens == []
    assert_whole(session, own_pair, before)


def test_after_a_prefiller_that_is_cut_short_while_it_is_read(own_pair: Pair) -> None:
    session = open_session(own_pair.decoder, micro_batch=32)
    before = session.decoder_checksum()
    attach(session, own_pair, make_plan(slots=1))

    def cut() -> bool:
        os.truncate(own_pair.prefiller, 8192)
        return True

    call = lambda: session.prefill(prompt(320), True, stop_at(1, cut))  # noqa: E731
    assert code_of(call) in ("disk.short_read", "disk.file_changed")
    assert_whole(session, own_pair, before)


def test_after_a_prefiller_that_is_replaced_while_it_is_read(own_pair: Pair) -> None:
    session = open_session(own_pair.decoder, micro_batch=32)
    before = session.decoder_checksum()
    attach(session, own_pair)

    def replace() -> bool:
        copy = own_pair.prefiller.with_suffix(".new")
        shutil.copy(own_pair.prefiller, copy)
        copy.rename(own_pair.prefiller)
        return True

    call = lambda: session.prefill(prompt(320), True, stop_at(2, replace))  # noqa: E731
    assert code_of(call) == "disk.file_changed"
    assert_whole(session, own_pair, before)


def test_nothing_read_from_a_prefiller_that_changes_stays_in_the_cache(own_pair: Pair) -> None:
    """A later pass's error must not leave tokens of an earlier, doubtful one behind."""
    session = attached(own_pair, micro_batch=32)

    def spoil() -> bool:
        with own_pair.prefiller.open("r+b") as file:
            file.seek(100_000)
            file.write(bytes(100_000))
        return True

    progress = stop_at(1, spoil)
    assert code_of(lambda: session.prefill(prompt(320), True, progress)) == "disk.file_changed"
    assert session.cached_tokens == []


def test_a_prefiller_that_changed_is_of_use_again_once_attached_anew(own_pair: Pair) -> None:
    session = attached(own_pair)
    wanted = read(session, prompt(60), with_prefiller=True)
    os.utime(own_pair.prefiller)
    assert code_of(lambda: session.prefill(prompt(60), True)) == "disk.file_changed"
    attach(session, own_pair)
    assert same_bits(read(session, prompt(60), with_prefiller=True), wanted)


def test_a_decoder_file_that_is_replaced_still_gives_its_weights_back(own_pair: Pair) -> None:
    """The open file outlives its name."""
    session = open_session(own_pair.decoder)
    before = session.decoder_checksum()
    attach(session, own_pair)
    for replace in (True, False):
        own_pair.decoder.unlink()
        if replace:
            own_pair.decoder.write_bytes(b"another model")
        session.keep(0)
        session.prefill(prompt(60), True)
        session.feed(1)
        assert session.decoder_checksum() == before


def test_a_decoder_file_that_was_written_to_lends_nothing(own_pair: Pair) -> None:
    session = open_session(own_pair.decoder)
    before = session.decoder_checksum()
    attach(session, own_pair)
    spoil(own_pair.decoder)
    assert code_of(lambda: session.prefill(prompt(60), True)) == "disk.file_changed"
    # The weights in memory are still good, and stay in use.
    assert session.decoder_checksum() == before
    read(session, prompt(60), with_prefiller=False)
    decode(session, 3)


def test_a_decoder_file_replaced_before_it_lends_is_not_restored_from(own_pair: Pair) -> None:
    session = open_session(own_pair.decoder)
    before = session.decoder_checksum()
    own_pair.decoder.write_bytes(own_pair.decoder.read_bytes())
    assert code_of(lambda: attach(session, own_pair)) == "disk.file_changed"
    assert not session.attached
    attach(session, own_pair, make_plan("resident"))  # which needs nothing of that file
    read(session, prompt(60), with_prefiller=True)
    assert session.decoder_checksum() == before


def test_nothing_is_decoded_with_weights_that_could_not_be_put_back(own_pair: Pair) -> None:
    session = attached(own_pair, make_plan(slots=1), micro_batch=32)
    resident = attached(own_pair, make_plan("resident"), micro_batch=32)
    facts = own_pair.decoder.stat()
    whole = own_pair.decoder.read_bytes()

    def damage() -> bool:
        spoil(own_pair.decoder)
        return True

    session.prefill(prompt(100), True, stop_at(1, damage))
    refused: dict[str, Callable[[], object]] = {
        "decode": lambda: session.feed(1),
        "a prompt by the decoder": lambda: session.prefill(prompt(40), False),
        "a short tail": lambda: session.prefill(prompt(4), True),
        "a prompt by the prefiller": lambda: session.prefill(prompt(40), True),
        "checksum": session.decoder_checksum,
        "attach": lambda: attach(session, own_pair),
        "detach": session.detach,
    }
    for _ in range(2):
        for name, call in refused.items():
            assert code_of(call) == "disk.file_changed", name
    assert session.cached_tokens == prompt(100)

    # The very bytes come back, as from a backup that keeps times: so does the session.
    own_pair.decoder.write_bytes(whole)
    os.utime(own_pair.decoder, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    session.feed(1)
    resident.prefill(prompt(100), True)
    resident.feed(1)
    assert same_bits(session.logits(), resident.logits())


@pytest.mark.parametrize("weight_type", ("Q4_0", "F16"))
def test_a_session_may_end_while_its_decoder_is_lent(tmp_path: Path, weight_type: str) -> None:
    pair = make_pair(tmp_path, "llama", weight_type=weight_type)
    for _ in range(5):
        session = attached(pair)
        session.prefill(prompt(40), True)
        del session


def spoil(path: Path) -> None:
    """Overwrites the file's second half in place."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2)
        file.write(b"\xff" * (size - size // 2))
