"""The trained drafters run in the library as they were trained, and are worth having."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.drafts.convert import convert_draft
from engine.drafts.pairing import open_draft, require_draft
from engine.gguf.splits import open_model
from engine.prefiller.pairing import Verdict
from tests.support.drafts.library_run import LibraryRun
from tests.support.drafts.shapes import DRAFTED, MASK, TAPS
from tests.support.drafts.trained import trained_drafts

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]  # the first has them trained

NEAR = 2e-3  # logits are around 5; the library sums in another order


@pytest.fixture(scope="module")
def drafts() -> Path:
    return trained_drafts()


@pytest.fixture(scope="module")
def expected(drafts: Path) -> dict[str, NDArray[Any]]:
    return dict(np.load(drafts / "expected.npz"))


def worst(got: NDArray[Any], wanted: NDArray[Any]) -> float:
    assert got.shape == wanted.shape
    assert wanted.std() > 0.5, "nothing but flat logits to compare"
    return float(np.abs(got - wanted).max())


def test_the_targets_answer_as_in_training(drafts: Path, expected: dict[str, Any]) -> None:
    for name in ("target", "target-mtp"):
        with LibraryRun(drafts / f"{name}.gguf") as run:
            assert worst(run.decode(expected["tokens"]), expected[name]) < NEAR


def test_eagle3_drafts_as_in_training(drafts: Path, expected: dict[str, Any]) -> None:
    tokens = expected["tokens"]
    with (
        LibraryRun(drafts / "target.gguf", taps=TAPS) as target,
        LibraryRun(drafts / "eagle3.gguf", nextn=True) as draft,
    ):
        target.decode(tokens)
        features = draft.encode(target.taps(len(tokens)))
        said = draft.decode(tokens[1:], features[:-1])
        assert worst(said, expected["eagle3"]) < NEAR


def test_mtp_drafts_as_in_training(drafts: Path, expected: dict[str, Any]) -> None:
    tokens = expected["tokens"]
    with (
        LibraryRun(drafts / "target-mtp.gguf", nextn=True) as target,
        LibraryRun(drafts / "target-mtp.gguf", mtp=True, nextn=True) as draft,
    ):
        target.decode(tokens)
        said = draft.decode(tokens[1:], target.nextn(len(tokens))[:-1], first=1)
        assert worst(said, expected["mtp"]) < NEAR


@pytest.mark.parametrize("anchor", [9, 40])
@pytest.mark.parametrize("name", ["dflash", "dspark"])
def test_a_block_is_drafted_as_in_training(
    drafts: Path, expected: dict[str, Any], name: str, anchor: int
) -> None:
    tokens = expected["tokens"]
    slots = DRAFTED if name == "dspark" else DRAFTED + 1
    with (
        LibraryRun(drafts / "target.gguf", taps=TAPS) as target,
        LibraryRun(
            drafts / f"{name}.gguf", other=target, nextn=name == "dspark", causal=False
        ) as draft,
    ):
        target.decode(tokens)
        draft.inject(target.taps(len(tokens))[: anchor + 1])
        block = [tokens[anchor + 1], *[MASK] * (slots - 1)]
        said = draft.decode(block, first=anchor + 1)
        assert worst(said, expected[name][anchor]) < NEAR
        if name == "dspark":
            sure = draft.nextn(slots)[:, 0]
            assert np.abs(sure - expected["dspark confidence"][anchor]).max() < NEAR


def test_the_published_heads_become_drafters_of_the_target(drafts: Path, tmp_path: Path) -> None:
    target = drafts / "target.gguf"
    for name in ("medusa", "eagle1"):
        draft = convert_draft(drafts / name, tmp_path / f"{name}.gguf", target).path
        pairing = require_draft(open_draft(draft), open_model(target))
        assert pairing.verdict is Verdict.MATCHED_BY_HASH
    for name in ("eagle3", "dflash", "dspark"):
        assert require_draft(open_draft(drafts / f"{name}.gguf"), open_model(target)).fits


def test_every_drafter_is_accepted_well_above_chance(drafts: Path) -> None:
    tau = json.loads((drafts / "tau.json").read_text())
    chance = tau.pop("commonest token")
    assert chance < 1.2
    assert len(tau) == 6
    assert all(one > 1.4 for one in tau.values()), tau


def test_the_drafters_rank_as_published(drafts: Path) -> None:
    tau = json.loads((drafts / "tau.json").read_text())
    assert tau["eagle3"] > tau["eagle1"] > tau["medusa"]
    assert tau["dspark"] >= tau["dflash"]
