"""The measurement of drafts: what it writes with them, what without, and what a row says."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.bench.drafts import DraftRow, draft_prompt, measure_drafts
from engine.bench.errors import Stopped
from engine.chat.cancellation import Cancellation
from engine.runtime.loaded_model import LoadedModel
from engine.runtime.settings import LoadSettings
from tests.support.tiny_models import write_tiny


@pytest.fixture
def model(tmp_path: Path) -> LoadedModel:
    file = write_tiny(tmp_path / "m.gguf", "llama")
    return LoadedModel(file, settings=LoadSettings(context=1024, threads=1))


def test_a_row_compares_the_same_answer_with_and_without_drafts(model: LoadedModel) -> None:
    model.always_draft(6)
    rounds: list[bool] = []
    row = measure_drafts(
        model,
        "quote",
        prompt_tokens=200,
        tokens=120,
        temperature=0.0,
        repeat=2,
        on_round=lambda *one: rounds.append(one[2]),
    )
    assert rounds == [False, True, True, False]
    assert row.method == "ngram"
    assert row.same_tokens
    assert row.context == 200
    assert row.drafted_tokens >= row.accepted_tokens
    assert row.tau >= 1
    assert len(row.verify_cost) == 16
    assert min(row.verify_cost) > 0
    assert all(0 <= share <= 1 for share in row.accepted_by_position)
    assert row.tps > 0 and row.baseline_tps > 0


def test_a_row_says_that_a_model_drafted(tmp_path: Path) -> None:
    file = write_tiny(tmp_path / "m.gguf", "llama")
    model = LoadedModel(file, draft=file, settings=LoadSettings(context=512, threads=1))

    def measured(tokens: int) -> DraftRow:
        return measure_drafts(
            model, "free", prompt_tokens=60, tokens=tokens, temperature=0.0, repeat=1
        )

    measured(8)  # passes without drafts are the baseline
    model.always_draft(3)
    row = measured(40)
    assert row.method == "model"
    assert row.same_tokens
    assert row.tau > 2


def test_a_quote_ends_within_the_edited_copy(model: LoadedModel) -> None:
    prompt = draft_prompt(model, "quote", 600)
    text = b"".join(map(model.piece, prompt)).decode("utf-8", "ignore")
    assert len(prompt) == 600
    assert text.count("The same text, edited:") == 1
    ending = text[-40:]
    assert ending not in text[:-40]  # it goes on where the copy is
    assert ending.replace(" this ", " the ").replace(" was ", " is ") in text[:-40]


def test_a_measurement_can_be_stopped(model: LoadedModel) -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    with pytest.raises(Stopped):
        measure_drafts(
            model,
            "free",
            prompt_tokens=50,
            tokens=10,
            temperature=1.0,
            repeat=1,
            cancellation=cancellation,
        )
