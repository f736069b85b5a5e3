"""Architectures beyond those of the tiny models: what their graphs do with scales and biases."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.errors import NativeError
from engine.gguf.types import GgmlType
from engine.prefiller.build import build_prefiller
from engine.prefiller.formats import open_prefiller
from tests.support.gguf_bytes import GgufBytes, Tensor, f32, text, u32
from tests.support.prefiller_files import write_prefillers_model
from tests.support.sessions import (
    Pair,
    attach,
    attached,
    decoder_files,
    make_plan,
    open_session,
    prefiller_files,
    prompt,
    read,
    same_bits,
)
from tests.support.tiny_models import tiny_model

BLOCKS, WIDTH, FFN = 4, 128, 256  # of all models here


def llama(seed: int) -> GgufBytes:
    return tiny_model("llama", seed=seed, blocks=BLOCKS, width=WIDTH, ffn=FFN)


def llama_with_biases(seed: int) -> GgufBytes:
    """The library would stop the process rather than scale a sum of product and bias."""
    sizes = {"ffn_gate": FFN, "ffn_up": FFN, "ffn_down": WIDTH, "attn_q": WIDTH}
    return with_biases(llama(seed), sizes)


def starcoder2(seed: int) -> GgufBytes:
    """No gate, and biases everywhere."""
    model = renamed(llama(seed), "starcoder2")
    model.tensors = [one for one in model.tensors if "ffn_gate" not in str(one.name)]
    model.tensors.append(bias("output_norm.bias", WIDTH))
    sizes = {"ffn_up": FFN, "ffn_down": WIDTH, "attn_output": WIDTH}
    norms = {"attn_norm": WIDTH, "ffn_norm": WIDTH}
    return with_biases(model, {**sizes, **norms})


def command_r(seed: int) -> GgufBytes:
    """Attention and feed-forward side by side, from one norm."""
    model = renamed(llama(seed), "command-r")
    model.tensors = [
        one
        for one in model.tensors
        if one.name != "output.weight" and "ffn_norm" not in str(one.name)
    ]
    return model


def phi3(seed: int) -> GgufBytes:
    """Query, key and value in one product; gate and up in another."""
    model = renamed(llama(seed), "phi3")
    found = {str(one.name): one for one in model.tensors}
    for block in range(BLOCKS):
        at = f"blk.{block}."
        for fused, parts in (
            ("attn_qkv", ("attn_q", "attn_k", "attn_v")),
            ("ffn_up", ("ffn_gate", "ffn_up")),
        ):
            taken = [found.pop(f"{at}{part}.weight") for part in parts]
            shape = (WIDTH, sum(one.shape[1] for one in taken))
            data = b"".join(one.data for one in taken)
            name = f"{at}{fused}.weight"
            found[name] = Tensor(name, shape, taken[0].type, data)
    model.tensors = list(found.values())
    return model


def renamed(model: GgufBytes, arch: str) -> GgufBytes:
    keys = [(str(key).replace("llama.", f"{arch}."), value) for key, value in model.metadata]
    model.metadata = [(key, value) for key, value in keys if key != "general.architecture"]
    model.metadata.append(("general.architecture", text(arch)))
    model.metadata.append((f"{arch}.attention.layer_norm_epsilon", f32(1e-5)))
    return model


def bias(name: str, size: int) -> Tensor:
    values = np.random.default_rng(size).standard_normal(size).astype(np.float32)
    return Tensor(name, (size,), GgmlType.F32, values.tobytes())


def with_biases(model: GgufBytes, sizes: dict[str, int]) -> GgufBytes:
    for block in range(BLOCKS):
        model.tensors += [bias(f"blk.{block}.{name}.bias", size) for name, size in sizes.items()]
    return model


MODELS = (llama_with_biases, starcoder2, command_r, phi3)


def pair_in(folder: Path, model: Callable[[int], GgufBytes]) -> Pair:
    decoder, source, prefiller = (folder / name for name in ("d.gguf", "s.gguf", "p.gguf"))
    decoder.write_bytes(model(0).encode())
    source.write_bytes(model(1).encode())
    build_prefiller(decoder, prefiller, source=source)
    return Pair(decoder, source, prefiller)


@pytest.mark.parametrize("model", MODELS)
def test_a_prefiller_computes_what_its_weights_say(
    tmp_path: Path, model: Callable[[int], GgufBytes]
) -> None:
    pair = pair_in(tmp_path, model)
    prefiller, tokens = open_prefiller(pair.prefiller), prompt(40)
    unquantised = write_prefillers_model(tmp_path / "pp.gguf", pair.decoder, prefiller, exact=False)
    wanted = read(open_session(unquantised), tokens, with_prefiller=False)
    resident = read(attached(pair, make_plan("resident")), tokens, with_prefiller=True)
    session = attached(pair)
    by_decoder = read(session, tokens, with_prefiller=False)
    assert np.corrcoef(resident, wanted)[0, 1] > 0.98
    assert np.corrcoef(by_decoder, wanted)[0, 1] < 0.9
    assert same_bits(read(session, tokens, with_prefiller=True), resident)


def code_and_facts(call: Callable[[], object]) -> tuple[str, dict[str, Any]]:
    with pytest.raises(NativeError) as caught:
        call()
    return caught.value.code, caught.value.data


def test_a_mixture_of_experts_has_no_place_for_a_prefiller(tmp_path: Path) -> None:
    experts, block = 4, "blk.0."
    model = llama(0)
    model.metadata += [("llama.expert_count", u32(experts)), ("llama.expert_used_count", u32(2))]
    ffn = [one for one in model.tensors if "ffn_" in str(one.name) and "norm" not in str(one.name)]
    model.tensors = [one for one in model.tensors if one not in ffn]
    for one in ffn:
        name = str(one.name).replace(".weight", "_exps.weight")
        model.tensors.append(Tensor(name, (*one.shape, experts), one.type, one.data * experts))
        if "gate" in name:
            router = np.random.default_rng(1).standard_normal((experts, WIDTH)).astype(np.float32)
            gate = name.replace("gate_exps", "gate_inp")
            model.tensors.append(Tensor(gate, (WIDTH, experts), GgmlType.F32, router.tobytes()))
    decoder = tmp_path / "moe.gguf"
    decoder.write_bytes(model.encode())
    dense = pair_in(tmp_path, llama)

    session = open_session(decoder)
    wanted = read(session, prompt(40), with_prefiller=False)
    rename = {f"{block}ffn_up.weight": f"{block}ffn_up_exps.weight"}
    only = prefiller_files(
        dense.prefiller,
        change=lambda facts: {**facts, "name": rename.get(facts["name"], facts["name"])},
    )
    code, facts = code_and_facts(lambda: session.attach(only, decoder_files(decoder), make_plan()))
    assert code in ("phase.shape", "phase.unknown_tensor")
    assert "ffn" in facts["tensor"]
    assert same_bits(read(session, prompt(40), with_prefiller=True), wanted)


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return pair_in(tmp_path_factory.mktemp("dense"), llama)


# What is wrong with one tensor of the prefiller, and what the refusal says.
WRONG: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "name": ({"name": "blk.0.nothing.weight"}, "phase.unknown_tensor", {}),
    "block": ({"block": 1}, "phase.no_slot", {"architecture": "llama"}),
    "block out of range": ({"block": 99}, "phase.no_slot", {}),
    "block below zero": ({"block": -1}, "phase.no_slot", {}),
    "columns": ({"columns": 192}, "phase.shape", {"columns": 192, "wanted_columns": WIDTH}),
    "rows": ({"rows": 64}, "phase.shape", {"rows": 64, "wanted_rows": WIDTH}),
    "size": ({"size": 64}, "phase.shape", {"bytes": 64, "wanted_bytes": WIDTH * WIDTH * 9 // 16}),
    "a place for no prefiller": (
        {"name": "output.weight", "columns": WIDTH, "rows": 288, "size": WIDTH * 288 * 9 // 16},
        "phase.no_slot",
        {"tensor": "output.weight"},
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_prefiller_that_does_not_fit_is_refused_and_the_decoder_goes_on(
    dense: Pair, wrong: str
) -> None:
    change, code, facts = WRONG[wrong]
    session = open_session(dense.decoder)
    checksum = session.decoder_checksum()
    attach(session, dense)
    wanted = read(session, prompt(40), with_prefiller=False)
    files = prefiller_files(
        dense.prefiller,
        change=lambda one: {**one, **(change if one["name"] == "blk.0.attn_q.weight" else {})},
    )
    found = code_and_facts(lambda: session.attach(files, decoder_files(dense.decoder), make_plan()))
    assert found[0] == code
    assert facts.items() <= found[1].items()
    assert not session.attached
    assert same_bits(read(session, prompt(40), with_prefiller=True), wanted)
    assert session.decoder_checksum() == checksum
    attach(session, dense)
    assert session.prefill(prompt(40), True).used_prefiller


@pytest.mark.parametrize("plan", ("resident", "odp"))
def test_tensors_that_lie_beyond_the_files_end_are_a_short_read(dense: Pair, plan: str) -> None:
    session = open_session(dense.decoder)
    checksum = session.decoder_checksum()
    files = prefiller_files(
        dense.prefiller, change=lambda one: {**one, "offset": one["offset"] + (1 << 30)}
    )

    def use() -> None:
        session.attach(files, decoder_files(dense.decoder), make_plan(plan))
        session.prefill(prompt(40), True)

    assert code_and_facts(use)[0] == "disk.short_read"
    assert session.decoder_checksum() == checksum
    attach(session, dense)
    session.prefill(prompt(40), True)


def test_files_that_are_not_there_are_named(dense: Pair, tmp_path: Path) -> None:
    session = open_session(dense.decoder)
    files = prefiller_files(dense.prefiller)
    files.paths = [str(tmp_path / "gone.gguf")]
    code, facts = code_and_facts(
        lambda: session.attach(files, decoder_files(dense.decoder), make_plan())
    )
    assert code == "disk.open_failed"
    assert facts["path"] == str(tmp_path / "gone.gguf")
    assert not session.attached


def test_a_prefiller_of_some_blocks_leaves_the_others_to_the_decoder(
    dense: Pair, tmp_path: Path
) -> None:
    """As where a weight's rows are no whole number of NVFP4 blocks."""
    session = open_session(dense.decoder)
    kept = {"blk.1.attn_q.weight", "blk.3.ffn_down.weight"}
    everything = open_prefiller(dense.prefiller)
    files = prefiller_files(dense.prefiller, only=kept)
    session.attach(files, decoder_files(dense.decoder), make_plan())
    assert session.prefill_memory.streamed_blocks == 2
    found = read(session, prompt(40), with_prefiller=True)

    some = dataclasses.replace(
        everything, tensors=tuple(one for one in everything.tensors if one.name in kept)
    )
    model = write_prefillers_model(tmp_path / "pp.gguf", dense.decoder, some, exact=True)
    assert same_bits(found, read(open_session(model), prompt(40), with_prefiller=False))
