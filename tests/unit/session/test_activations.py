"""How few bits activations may have on a device that would take four: in prompts only."""

from __future__ import annotations

from pathlib import Path

from engine.prefiller.formats import open_prefiller
from tests.support.sessions import MakePair, attach, make_pair, open_session


def test_a_prefillers_weights_may_meet_four_bits(pair_of: MakePair) -> None:
    pair = pair_of("qwen35")
    session = open_session(pair.decoder)
    attach(session, pair)
    tensors = len(open_prefiller(pair.prefiller).tensors)
    assert session.prefill_memory.four_bit_weights == tensors


def test_a_decoders_own_never_do_with_or_without_a_prefiller(tmp_path: Path) -> None:
    """Seven products in each of four blocks."""
    pair = make_pair(tmp_path, "llama", weight_type="NVFP4")
    session = open_session(pair.decoder)
    assert session.guarded_weights == 4 * 7
    attach(session, pair)
    assert session.prefill_memory.four_bit_weights == 4 * 7
    session.detach()
    assert open_session(pair.decoder).guarded_weights == 4 * 7


def test_other_decoders_need_no_guard(pair_of: MakePair) -> None:
    assert open_session(pair_of("llama").decoder).guarded_weights == 0
