"""Which tensor names are a block's linear weights, and which share a scale."""

from __future__ import annotations

import pytest

from engine.prefiller.linears import LINEARS, BlockLinear, block_linear, scale_groups


@pytest.mark.parametrize("linear", LINEARS)
def test_a_linear_is_found_by_its_name(linear: str) -> None:
    place = block_linear(f"blk.63.{linear}.weight")
    assert place == BlockLinear(63, linear)
    assert place is not None and place.name == f"blk.63.{linear}.weight"


@pytest.mark.parametrize(
    "name",
    [
        "blk.0.attn_q.bias",
        "blk.0.attn_q_norm.weight",
        "blk.0.ssm_alpha.weight",
        "blk.0.ssm_beta.weight",
        "blk.0.ssm_conv1d.weight",
        "blk.0.ffn_gate_inp.weight",
        "blk.0.ffn_up_exps.weight",
        "blk.0.ffn_up_shexp.weight",
        "blk.0.nextn.eh_proj.weight",
        "blk.-1.attn_q.weight",
        "blk.01.attn_q.weight",
        "blk.99999.attn_q.weight",
        "enc.blk.0.attn_q.weight",
        "token_embd.weight",
        "",
    ],
)
def test_everything_else_stays_the_decoders(name: str) -> None:
    assert block_linear(name) is None


def test_blocks_come_in_order_with_fused_layers_together() -> None:
    names = ["ffn_down", "attn_v", "ffn_up", "attn_q", "ffn_gate", "attn_output", "attn_k"]
    places = [BlockLinear(block, name) for block in (10, 2) for name in names]
    groups = [[place.linear for place in group] for group in scale_groups(places)]
    one_block = [
        ["attn_q", "attn_k", "attn_v"],
        ["attn_output"],
        ["ffn_gate", "ffn_up"],
        ["ffn_down"],
    ]
    assert groups == one_block * 2
    assert [group[0].block for group in scale_groups(places)] == [2] * 4 + [10] * 4
