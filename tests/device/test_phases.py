"""On a device, too: streamed equals resident to the bit, on the path asked for, block by block."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.errors import NativeError
from engine.paths import demo_model
from engine.prefiller.build import build_prefiller
from tests.support.devices import ALL_LAYERS, ARCHS, host_buffer_type, on_device
from tests.support.sessions import (
    MakePair,
    Pair,
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


def assert_equal(left: Any, right: Any, lengths: Sequence[int] = (40, 150)) -> None:
    """The same logits after prompts, and the same tokens after them."""
    for length in lengths:
        tokens = prompt(length, seed=length)
        assert same_bits(
            read(left, tokens, with_prefiller=True), read(right, tokens, with_prefiller=True)
        )
        found, wanted = decode(left, 4), decode(right, 4)
        assert found[0] == wanted[0] and same_bits(found[1], wanted[1])


@pytest.mark.parametrize("asynchronous", (True, False))
@pytest.mark.parametrize("arch", ARCHS)
def test_streamed_equals_resident(
    pair_of: MakePair, device_name: str, arch: str, asynchronous: bool
) -> None:
    pair = pair_of(arch)
    resident = on_device(pair, device_name, make_plan("resident"))
    streamed = on_device(pair, device_name, make_plan(asynchronous=asynchronous))
    for session in (resident, streamed):
        assert session.prefill_memory.devices == [device_name]
    memory = streamed.prefill_memory
    assert memory.streamed_blocks > 0 and memory.resident_blocks == 0
    assert memory.lent_bytes > 0 and memory.allocated_slot_bytes == 0
    assert memory.staging_bytes > 0
    assert memory.asynchronous == asynchronous
    assert_equal(streamed, resident)


@pytest.mark.parametrize("arch", ARCHS)
def test_the_prompt_is_read_with_the_prefiller_and_answered_with_the_decoder(
    pair_of: MakePair, device_name: str, arch: str
) -> None:
    pair = pair_of(arch)
    session = on_device(pair, device_name, make_plan())
    tokens = prompt(100)
    by_prefiller = read(session, tokens, with_prefiller=True)
    by_decoder = read(session, tokens, with_prefiller=False)
    on_host = open_session(pair.decoder, micro_batch=64)
    attach(on_host, pair, make_plan("resident"))
    # Devices round differently, but far less than the two sets of weights differ.
    apart = distance(by_prefiller, by_decoder) / 3
    assert apart > 0.1
    assert distance(by_prefiller, read(on_host, tokens, with_prefiller=True)) < apart
    assert distance(by_decoder, read(on_host, tokens, with_prefiller=False)) < apart


@pytest.mark.parametrize("slots", (1, 2, 3))
def test_tiers_may_be_mixed(pair_of: MakePair, device_name: str, slots: int) -> None:
    pair = pair_of("qwen35")
    tiers = ["device", "host", "disk", "disk", "host", "device", "disk", "host"]
    mixed = on_device(pair, device_name, make_plan(tiers=tiers, slots=slots))
    memory = mixed.prefill_memory
    assert (memory.resident_blocks, memory.host_blocks, memory.streamed_blocks) == (2, 3, 6)
    assert memory.host_bytes > 0
    assert_equal(mixed, on_device(pair, device_name, make_plan("resident")))


def test_the_host_tier_reads_nothing_from_the_disk(pair_of: MakePair, device_name: str) -> None:
    pair = pair_of("llama")
    session = on_device(pair, device_name, make_plan(tiers=["host"] * 4))
    assert session.prefill_memory.staging_bytes == 0
    session.keep(0)
    assert session.prefill(prompt(150), True).bytes_read == 0
    assert_equal(session, on_device(pair, device_name, make_plan("resident")))


@pytest.mark.parametrize("layers", (1, 3, 5))
@pytest.mark.parametrize("arch", ("llama", "qwen35"))
def test_each_block_is_where_the_decoders_block_is(
    pair_of: MakePair, device_name: str, arch: str, layers: int
) -> None:
    """Layers are counted from the last; the output layer is one of them."""
    pair = pair_of(arch)
    plans = [make_plan("resident"), make_plan(slots=1), make_plan(tiers=["host", "disk"] * 4)]
    sessions = [on_device(pair, device_name, plan, layers=layers) for plan in plans]
    assert [s.prefill_memory.devices for s in sessions] == [[device_name] * (layers > 1)] * 3
    assert_equal(sessions[1], sessions[0])
    assert_equal(sessions[2], sessions[0])


def test_no_layer_on_a_device_is_the_cpu_alone(pair_of: MakePair, device_name: str) -> None:
    pair = pair_of("llama")
    session = on_device(pair, device_name, make_plan(), layers=0)
    alone = open_session(pair.decoder, micro_batch=64)
    attach(session, pair)
    attach(alone, pair)
    assert session.prefill_memory.devices == []
    assert_equal(session, alone)


def test_slots_of_their_own_are_allocated_only_where_asked_for(
    pair_of: MakePair, device_name: str
) -> None:
    pair = pair_of("llama")
    own = on_device(pair, device_name, make_plan(carve_out=False))
    assert own.prefill_memory.lent_bytes == 0 and own.prefill_memory.allocated_slot_bytes > 0
    assert_equal(own, on_device(pair, device_name, make_plan("resident")))
    # With one block of the decoder there, its memory cannot hold several of the prefiller.
    with pytest.raises(NativeError) as caught:
        on_device(pair, device_name, make_plan(slots=4), layers=2)
    assert caught.value.code == "memory.no_slot"
    assert caught.value.data["device"] == device_name


def test_a_device_that_is_not_there_is_refused_by_name(pair_of: MakePair) -> None:
    with pytest.raises(NativeError) as caught:
        open_session(pair_of("llama").decoder, gpu_layers=ALL_LAYERS, devices=["Nowhere7"])
    assert caught.value.code == "device.unknown"


def test_what_of_the_models_memory_is_on_devices_is_told(
    pair_of: MakePair, device_name: str
) -> None:
    pair = pair_of("llama")
    memory = on_device(pair, device_name).memory
    everything = memory.weights + memory.context + memory.compute
    assert everything / 2 < memory.on_devices <= everything
    assert open_session(pair.decoder, micro_batch=64).memory.on_devices == 0


def test_a_real_models_prompt_is_read_alike_where_its_activations_are_large(
    device_name: str, tmp_path: Path
) -> None:
    """Sums of NVFP4 products overflow half precision here, which some devices would keep them in:
    then nothing is alike. Rounding alone moves the logits of so small a model by a third."""
    made = tmp_path / "prefiller.gguf"
    build_prefiller(demo_model(), made)
    pair = Pair(decoder=demo_model(), source=demo_model(), prefiller=made)
    there = on_device(pair, device_name, make_plan("resident"))
    here = attached(pair, make_plan("resident"), micro_batch=64)
    # A whole chat, as the model was trained on: there activations are largest.
    asked = (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
        "<|im_end|>\n<|im_start|>user\nWhat is the capital of France?<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    tokens = here.tokenize(asked, True, True)
    found, wanted = (read(one, tokens, with_prefiller=True) for one in (there, here))
    assert distance(found, wanted) < 0.6


def test_blocks_of_the_hosts_tier_are_in_the_memory_that_the_device_copies_from(
    pair_of: MakePair, device_name: str
) -> None:
    pair = pair_of("llama")
    session = on_device(pair, device_name, make_plan(tiers=["host", "disk", "host", "disk"]))
    memory = session.prefill_memory
    assert memory.host_blocks == 2 and memory.host_bytes > 0
    # RPC has no such memory, cards have; `pinned` compares the kinds of the buffers made.
    offered = host_buffer_type(device_name)
    assert (offered is None) == device_name.startswith("RPC")
    assert memory.pinned == (offered is not None), offered
