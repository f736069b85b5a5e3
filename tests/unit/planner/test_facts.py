"""What a header tells of a decoder: sizes, caches, products, and whether a prefiller helps."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.bench.shapes import model_shape
from engine.gguf.splits import open_model
from engine.gguf.types import GgmlType
from engine.planner.facts import assumed_prefiller, model_facts, prefiller_facts
from engine.prefiller.build import build_prefiller
from engine.prefiller.formats import open_prefiller
from tests.support.planning import GIB, decoder
from tests.support.published_models import published_model
from tests.support.tiny_models import write_tiny


def test_a_hybrid_model_caches_keys_in_every_fourth_block_and_state_in_the_others() -> None:
    facts = decoder("qwen35", "27b", "IQ1_S")
    assert len(facts.blocks) == 64
    attention = [block for block in facts.blocks if block.kv_values]
    assert len(attention) == 16
    assert {block.kv_values for block in attention} == {2 * 4 * 256}
    assert {block.attention_width for block in attention} == {24 * 256}
    recurrent = [block for block in facts.blocks if block.state_bytes]
    assert len(recurrent) == 48
    # What the library allocates for one block: 128 x 128 x 48 and 3 x 10240 values of 4 bytes.
    assert {block.state_bytes for block in recurrent} == {4 * (128 * 128 * 48 + 3 * 10_240)}


def test_a_prefiller_for_the_27b_is_as_large_as_the_published_ones() -> None:
    facts = decoder("qwen35", "27b", "IQ1_S")
    assert assumed_prefiller(facts).nbytes / GIB == pytest.approx(12.8, abs=0.1)


@pytest.mark.parametrize(
    ("type_", "bits", "helps"),
    [("IQ1_S", 1.5625, True), ("IQ2_XXS", 2.0625, True), ("Q2_K", 2.625, True),
     ("IQ3_XXS", 3.0625, False), ("Q4_K", 4.5, False)],
)  # fmt: skip
def test_a_prefiller_helps_the_answers_of_decoders_of_less_than_three_bits(
    type_: str, bits: float, helps: bool
) -> None:
    facts = decoder("qwen3", "8b", type_)
    assert facts.bits == pytest.approx(bits)
    assert facts.quality_gain == helps


def test_a_tied_head_is_read_for_every_token_and_an_embedding_is_not() -> None:
    tied = model_facts(published_model(model_shape("qwen3", "0.6b"), GgmlType.Q4_K))
    assert tied.tied
    assert tied.decode_bytes["Q6_K"] == tied.head_bytes == tied.embedding_bytes
    own = decoder("qwen3", "8b", "Q4_0")
    assert not own.tied
    assert "Q4_K" not in own.decode_bytes  # the embedding's type


def test_a_prefiller_built_for_a_decoder_is_measured_block_by_block(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "d-Q8_0.gguf", "qwen35")
    model = open_model(path)
    facts = model_facts(model)
    built = open_prefiller(build_prefiller(path, tmp_path / "p.gguf").path)
    found = prefiller_facts(built, model, facts)
    assert found.matched
    assert found.fits
    assert found.block_bytes == assumed_prefiller(facts).block_bytes
    assert found.nbytes == built.nbytes


def test_another_models_prefiller_is_told_apart(tmp_path: Path) -> None:
    mine = write_tiny(tmp_path / "mine.gguf", "llama")
    other = write_tiny(tmp_path / "other.gguf", "qwen3", blocks=6)
    built = open_prefiller(build_prefiller(other, tmp_path / "p.gguf").path)
    model = open_model(mine)
    found = prefiller_facts(built, model, model_facts(model))
    assert not found.matched
    assert not found.fits
    assert found.reasons


def test_a_sliding_window_is_seen_in_five_blocks_of_six(tmp_path: Path) -> None:
    facts = model_facts(open_model(write_tiny(tmp_path / "g.gguf", "gemma3")))
    assert [block.window for block in facts.blocks] == [64, 64, 64, 64, 64, None]
