"""The measurement tells a decoder's own prefiller from a stranger's of the same shapes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from engine.chat.cancellation import Cancellation
from engine.prefiller.build import build_prefiller
from engine.prefiller.errors import ContextTooSmall, MeasurementStopped
from engine.prefiller.measure import (
    CONTINUATION,
    Measurement,
    built_in_tokens,
    measure,
    negative_log_likelihood,
)
from engine.runtime.loaded_model import LoadedModel
from engine.runtime.settings import LoadSettings
from tests.support.tiny_models import write_pair

PROMPT = [int(token) for token in np.random.default_rng(1).integers(0, 256, 96)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A decoder `d`, its own prefiller, and one of other weights in the same shapes."""
    folder = tmp_path_factory.mktemp("measure")
    decoder, stranger = write_pair(folder, "llama", blocks=2)
    decoder.rename(folder / "d.gguf")
    build_prefiller(folder / "d.gguf", folder / "own.gguf")
    build_prefiller(folder / "d.gguf", folder / "stranger.gguf", stranger)
    return folder


@contextmanager
def loaded(folder: Path, prefiller: str, context: int = 1024) -> Iterator[LoadedModel]:
    model = LoadedModel(
        folder / "d.gguf",
        prefiller=folder / prefiller,
        force_pairing=True,
        settings=LoadSettings(context=context, threads=1),
    )
    try:
        yield model
    finally:
        model.close()


def likeliest_continuation(model: LoadedModel) -> list[int]:
    """What the decoder is most certain of after PROMPT: a text on which a stranger costs."""
    model.keep(0)
    model.prefill(PROMPT, path="decoder", on_progress=lambda _: None)
    tokens: list[int] = []
    for _ in range(CONTINUATION):
        tokens.append(int(model.logits().argmax()))
        model.feed(tokens[-1])
    return PROMPT + tokens


def measured(folder: Path, prefiller: str) -> Measurement:
    with loaded(folder, prefiller) as model:
        return measure(model, likeliest_continuation(model))


def test_a_stranger_is_unmasked_and_the_own_prefiller_is_not_taken_for_one(folder: Path) -> None:
    own, stranger = measured(folder, "own.gguf"), measured(folder, "stranger.gguf")
    assert own.decoder == stranger.decoder
    assert stranger.worse
    assert own.difference < stranger.difference / 2


def test_the_decoders_figure_is_its_mean_negative_log_likelihood(folder: Path) -> None:
    with loaded(folder, "own.gguf") as model:
        tokens = likeliest_continuation(model)
        figure = measure(model, tokens).decoder
        model.keep(0)
        model.prefill(tokens[:-CONTINUATION], path="decoder", on_progress=lambda _: None)
        total = 0.0
        for token in tokens[-CONTINUATION:]:
            logits = model.logits().astype(np.float64)
            total -= np.log(np.exp(logits)[token] / np.exp(logits).sum())
            model.feed(token)
    assert figure == pytest.approx(total / CONTINUATION)


def test_progress_counts_both_readings(folder: Path) -> None:
    seen: list[tuple[int, int]] = []
    with loaded(folder, "own.gguf") as model:
        tokens = likeliest_continuation(model)
        measure(model, tokens, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (2 * len(tokens), 2 * len(tokens))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


@pytest.mark.parametrize("after", [0, 96 + 10, 96 + CONTINUATION + 1])
def test_cancelling_stops_in_either_reading_and_in_either_phase(folder: Path, after: int) -> None:
    cancellation = Cancellation()

    def stop(done: int, _total: int) -> None:
        if done >= after:
            cancellation.cancel()

    with loaded(folder, "own.gguf") as model, pytest.raises(MeasurementStopped):
        measure(model, [*PROMPT, *range(CONTINUATION)], progress=stop, cancellation=cancellation)


def test_a_small_context_is_refused_with_the_numbers(folder: Path) -> None:
    with loaded(folder, "own.gguf", context=256) as model:
        tokens = built_in_tokens(model)
        assert len(tokens) == model.n_ctx
        with pytest.raises(ContextTooSmall) as refused:
            measure(model, tokens)
    assert refused.value.data["tokens"] == 256


def test_likelihoods_of_large_logits_do_not_overflow() -> None:
    logits = np.array([1000.0, 999.0], np.float32)
    assert negative_log_likelihood(logits, 1) == pytest.approx(1 + np.log1p(np.exp(-1)))


@pytest.mark.parametrize(
    ("difference", "error", "worse"),
    [(0.5, 0.1, True), (0.04, 0.001, False), (0.2, 0.1, False), (-0.5, 0.01, False)],
)
def test_only_what_is_notable_and_no_chance_counts_as_worse(
    difference: float, error: float, worse: bool
) -> None:
    assert Measurement(100, 256, 3.0, 3.0 + difference, difference, error).worse is worse
