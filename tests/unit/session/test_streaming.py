"""Streamed prefill weights compute what resident ones compute, to the bit, however they come."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tests.support.sessions import (
    Logits,
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
from tests.support.split_models import write_split
from tests.support.tiny_models import ARCHS, tiny_model

SLOTS = (1, 2, 3, 4)


def assert_streams_as_resident(
    pair: Pair, tokens: list[int], plans: dict[str, object], **options: Any
) -> None:
    """Logits of the prompt and of the answer after it, which also reads the cache."""
    session = open_session(pair.decoder, **options)

    def outcome(plan: object) -> tuple[Logits, list[int], Logits]:
        attach(session, pair, plan)
        return read(session, tokens, with_prefiller=True), *decode(session, 4)

    first, answer, last = outcome(make_plan("resident"))
    for name, plan in plans.items():
        streamed_first, streamed_answer, streamed_last = outcome(plan)
        assert same_bits(streamed_first, first), name
        assert streamed_answer == answer, name
        assert same_bits(streamed_last, last), name


@pytest.mark.parametrize("slots", SLOTS)
@pytest.mark.parametrize("arch", ARCHS)
def test_slots_in_the_decoder_and_beside_it_compute_the_same(
    pair_of: MakePair, arch: str, slots: int
) -> None:
    plans = {
        "carve-out": make_plan(slots=slots),
        "own memory": make_plan(slots=slots, carve_out=False),
        "small requests": make_plan(slots=slots, request_bytes=4096),
    }
    assert_streams_as_resident(pair_of(arch), prompt(40), plans)


@pytest.mark.parametrize("micro_batch", (64, 100, 256, 700))
@pytest.mark.parametrize("arch", ARCHS)
def test_every_micro_batch_computes_the_same_streamed(
    pair_of: MakePair, arch: str, micro_batch: int
) -> None:
    plans = {f"{slots} slots": make_plan(slots=slots) for slots in (1, 2, 3)}
    assert_streams_as_resident(pair_of(arch), prompt(700), plans, micro_batch=micro_batch)


@pytest.mark.parametrize(
    "tiers",
    ("ddrd", "rddd", "dddr", "drdr", "rrrd", "drrr", "d", "rd"),
    ids=lambda tiers: f"tiers-{tiers}",
)
@pytest.mark.parametrize("arch", ("llama", "qwen35"))
def test_any_mix_of_tiers_computes_the_same(pair_of: MakePair, arch: str, tiers: str) -> None:
    names = [{"d": "disk", "r": "device"}[tier] for tier in tiers]
    plans = {
        "carve-out": make_plan(tiers=names),
        "one slot": make_plan(tiers=names, slots=1),
        "own memory": make_plan(tiers=names, carve_out=False, slots=3),
    }
    assert_streams_as_resident(pair_of(arch), prompt(100), plans, micro_batch=50)


@pytest.mark.parametrize(
    ("arch", "blocks"), (("llama", 1), ("llama", 3), ("gemma3", 7), ("qwen35", 5), ("qwen35", 9))
)
def test_any_number_of_blocks_goes_round_the_ring(tmp_path: Path, arch: str, blocks: int) -> None:
    pair = make_pair(tmp_path, arch, blocks=blocks)
    plans = {f"{slots} slots": make_plan(slots=slots) for slots in SLOTS}
    assert_streams_as_resident(pair, prompt(120), plans, micro_batch=40)


@pytest.mark.parametrize("weight_type", ("F16", "Q4_0", "Q4_1", "Q4_K", "IQ2_XXS", "NVFP4"))
def test_a_decoder_in_any_format_lends_its_memory(tmp_path: Path, weight_type: str) -> None:
    """Some formats are rearranged as they are loaded, and must be so again when put back."""
    pair = make_pair(tmp_path, "llama", weight_type=weight_type, blocks=6, width=256, ffn=512)
    session = open_session(pair.decoder)
    before = session.decoder_checksum()
    own = read(session, prompt(40), with_prefiller=False)
    attach(session, pair, make_plan(slots=1))
    assert session.prefill_memory.lent_bytes > 0
    read(session, prompt(40), with_prefiller=True)
    assert session.decoder_checksum() == before
    assert same_bits(read(session, prompt(40), with_prefiller=False), own)
    assert_streams_as_resident(pair, prompt(40), {"carve-out": make_plan()})


def test_blocks_of_different_shapes_share_slots(tmp_path: Path) -> None:
    """qwen35 alternates attention and delta nets; here they also differ in size by a lot."""
    pair = make_pair(tmp_path, "qwen35", width=192, ffn=320)
    assert_streams_as_resident(pair, prompt(90), {"2": make_plan(), "3": make_plan(slots=3)})


def test_a_prompt_reads_each_streamed_block_once_a_pass(pair_of: MakePair) -> None:
    pair = pair_of("llama")
    session = attached(pair, make_plan(tiers=["device", "disk", "disk", "device"]), micro_batch=64)
    assert session.prefill_memory.streamed_blocks == 2
    once = session.prefill(prompt(64), True)
    session.keep(0)
    thrice = session.prefill(prompt(180), True)
    assert (once.passes, thrice.passes) == (1, 3)
    assert once.bytes_read > 0
    assert thrice.bytes_read == 3 * once.bytes_read


def test_prompts_one_after_the_other_stream_anew(pair_of: MakePair) -> None:
    pair = pair_of("llama")
    streamed, resident = attached(pair), attached(pair, make_plan("resident"))
    for seed in range(6):
        for session in (streamed, resident):
            session.prefill(prompt(33 + seed, seed), True)
            session.feed(seed)
        assert same_bits(streamed.logits(), resident.logits())


def test_a_decoder_in_parts_lends_and_restores_from_all_of_them(
    pair_of: MakePair, tmp_path: Path
) -> None:
    whole = pair_of("llama")
    first, *_ = write_split(tmp_path, tiny_model("llama"))
    parts = dataclasses.replace(whole, decoder=first)
    session = attached(parts)
    assert session.prefill_memory.lent_bytes > 0
    before = session.decoder_checksum()
    found = read(session, prompt(60), with_prefiller=True)
    assert session.decoder_checksum() == before
    assert same_bits(found, read(attached(whole), prompt(60), with_prefiller=True))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("arch", "blocks", "micro_batch"),
    (
        ("llama", 3, 2048),
        ("llama", 2, 999),
        ("qwen2", 2, 2048),
        ("qwen3", 2, 2048),
        ("gemma3", 6, 2048),
        ("qwen35", 4, 2048),
    ),
)
def test_at_sixteen_thousand_tokens_nothing_overtakes_the_compute(
    tmp_path: Path, arch: str, blocks: int, micro_batch: int
) -> None:
    """Two heads, as attention over so many tokens takes nearly all of the time."""
    pair = make_pair(tmp_path, arch, width=64, ffn=128, blocks=blocks)
    options = {"n_ctx": 16_384, "micro_batch": micro_batch}
    assert_streams_as_resident(pair, prompt(16_000), {"2 slots": make_plan()}, **options)


@pytest.mark.slow
@pytest.mark.parametrize("length", (40, 700))
def test_a_real_model_streams_as_it_computes_resident(smol: Pair, length: int) -> None:
    tokens = prompt(length)
    plans = {"carve-out": make_plan(), "3 slots": make_plan(slots=3)}
    assert_streams_as_resident(smol, tokens, plans, micro_batch=512)
