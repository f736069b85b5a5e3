"""Rounding in decoding and along autocast costs what it should, and hardly more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.bench.accuracy import measure_activations, measure_perplexity
from engine.bench.errors import NoNvfp4
from engine.bench.synth import write_synthetic
from engine.gguf.types import GgmlType
from engine.native import native
from engine.prefiller.measure import built_in_tokens
from engine.runtime.loaded_model import LoadedModel
from engine.runtime.settings import LoadSettings
from tests.support.dequantised import write_dequantised
from tests.support.sessions import Pair
from tests.support.synthetic import small_shape
from tests.support.tiny_models import write_tiny

Array = NDArray[np.float64]


@contextmanager
def opened(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoadedModel]:
    """With autocast for every type, however fast the library is at it."""
    model = LoadedModel(path, settings=LoadSettings(context=1024, threads=2))
    monkeypatch.setattr(model, "_autocast_known", True)
    for name in model.weight_types - {"F32"}:
        native().set_autocast_columns(int(GgmlType[name]), 32)
    try:
        yield model
    finally:
        model.close()


def deviations(
    path: Path, exact: Path, tokens: list[int] | None, monkeypatch: pytest.MonkeyPatch
) -> tuple[Array, Array]:
    """In nats a token, of the decoder's path and of autocast from the same weights in FP32."""
    with opened(exact, monkeypatch) as model:
        tokens = tokens or built_in_tokens(model)
        right = np.array(model.losses(tokens, autocast=False)[0])
    with opened(path, monkeypatch) as model:
        own, none = model.losses(tokens, autocast=False)
        cast, share = model.losses(tokens, autocast=True)
    assert none == 0
    if share < 1:
        pytest.skip("the library keeps these weights in a layout of its own on this processor")
    return np.array(own) - right, np.array(cast) - right


def size(values: Array) -> float:
    return float(np.sqrt(np.square(values).mean()))


@pytest.mark.parametrize("name", ["Q4_1", "Q8_0", "IQ2_XXS", "IQ3_S", "Q3_K"])
def test_autocast_predicts_no_less_exactly_than_the_library(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = write_tiny(tmp_path / "model.gguf", "llama", width=256, weight_type=name)
    exact = write_dequantised(tmp_path / "exact.gguf", model)
    tokens = np.random.default_rng(3).integers(0, 256, 512).tolist()
    own, cast = deviations(model, exact, tokens, monkeypatch)
    assert 0 < size(cast) < size(own)


@pytest.mark.slow
def test_autocast_keeps_the_demo_models_perplexity(
    smol: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = write_dequantised(tmp_path / "exact.gguf", smol.decoder)
    own, cast = deviations(smol.decoder, exact, None, monkeypatch)
    exact.unlink()
    assert abs(np.exp(cast.mean()) - 1) < 0.001
    # Within as much of the library's as that is from the weights' own.
    assert abs(cast.mean()) < abs(own.mean())


def test_both_paths_perplexities_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = write_synthetic(small_shape("qwen3"), GgmlType.IQ2_XXS, tmp_path, "small")
    with opened(made.decoder, monkeypatch) as model:
        tokens = np.random.default_rng(3).integers(0, 256, 100).tolist()
        own, cast = measure_perplexity(model, tokens)
        losses, _ = model.losses(tokens, autocast=True)
    assert (own.path, own.deviation, own.share) == ("decoder", 0, 0)
    assert (cast.path, cast.share, cast.tokens) == ("autocast", 1, 100)
    assert cast.perplexity == pytest.approx(np.exp(np.mean(losses)))
    assert cast.deviation == pytest.approx(cast.perplexity / own.perplexity - 1)


def test_decoding_nvfp4_is_closer_to_unrounded_activations_than_the_librarys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = write_synthetic(small_shape("qwen3"), GgmlType.NVFP4, tmp_path, "small")
    with opened(made.decoder, monkeypatch) as model:
        tokens = np.random.default_rng(3).integers(0, 256, 64).tolist()
        ours, eight, four = measure_activations(model, tokens)
    assert ours.mean_kl < eight.mean_kl / 20
    assert eight.mean_kl < four.mean_kl / 5
    assert ours.tokens == 32


def test_models_without_nvfp4_have_no_such_activations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = write_synthetic(small_shape("qwen3"), GgmlType.Q8_0, tmp_path, "small")
    with opened(made.decoder, monkeypatch) as model, pytest.raises(NoNvfp4):
        measure_activations(model, list(range(64)))
