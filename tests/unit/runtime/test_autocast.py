"""The path autocast: taken when asked for, or without a prefiller, where it is faster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.bench.shapes import model_shape
from engine.bench.synth import write_synthetic
from engine.gguf.types import GgmlType
from engine.native import native
from engine.runtime.loaded_model import LoadedModel
from engine.runtime.routing import PathUnavailable, Situation, route
from engine.runtime.settings import LoadSettings

LONG = Situation(tokens=512, blocks=None, min_prefill_tokens=32, autocast_share=0.9)


def test_auto_takes_it_without_a_prefiller() -> None:
    assert route("auto", LONG).path == "autocast"
    assert route("auto", replace(LONG, autocast_share=0.1)).path == "decoder"


def test_asked_for_where_nothing_is_faster_is_an_error() -> None:
    assert route("autocast", replace(LONG, autocast_share=0.1)).path == "autocast"
    with pytest.raises(PathUnavailable):
        route("autocast", replace(LONG, autocast_share=0.0))


def test_a_short_prompt_goes_to_the_decoder() -> None:
    short = replace(LONG, tokens=31, autocast_share=0.0)
    assert route("autocast", short).path == "decoder"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoadedModel]:
    shape = replace(model_shape("qwen3", "0.6b"), blocks=2)
    folder = tmp_path_factory.mktemp("synthetic")
    made = write_synthetic(shape, GgmlType.IQ2_XXS, folder, "small")
    loaded = LoadedModel(Path(made.decoder), settings=LoadSettings(context=512, threads=1))
    yield loaded
    loaded.close()


@pytest.mark.slow
def test_it_reads_as_the_decoder_does_but_for_rounding(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = np.random.default_rng(1).integers(100, 1000, 40).tolist()
    # What counts here is what it computes, not whether it is faster for so small a model.
    native().set_autocast_columns(int(GgmlType.IQ2_XXS), 32)
    # The last block multiplies one row alone, which a decode kernel would take.
    native().set_decode_kernel(int(GgmlType.IQ2_XXS), False)
    monkeypatch.setattr(model, "_autocast_known", True)
    logits = {}
    products = {}
    for path in ("decoder", "autocast", "decoder", "autocast"):
        model.keep(0)
        before = native().kernel_products()
        assert model.prefill(tokens, path=path, on_progress=lambda _: None).path == path
        products[path] = native().kernel_products() - before
        found = np.array(model.logits())
        assert np.array_equal(logits.setdefault(path, found), found)  # the same each time
    assert products["decoder"] == 0
    assert products["autocast"] > 0
    difference = np.linalg.norm(logits["decoder"] - logits["autocast"])
    assert 0 < difference < 0.2 * np.linalg.norm(logits["decoder"])
