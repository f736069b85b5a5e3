"""Decoding against the bare library: both really decode, take turns, and end when stopped."""

from __future__ import annotations

import os
import statistics
from collections.abc import Generator
from pathlib import Path

import psutil
import pytest

from engine.bench import decode
from engine.bench.decode import Method, measure_decode
from engine.bench.errors import BareLibraryFailed, PromptTooShort, Stopped
from engine.bench.synth import Synthetic, write_synthetic
from engine.chat.cancellation import Cancellation
from engine.gguf.types import GgmlType
from engine.runtime.loaded_model import LoadedModel
from engine.runtime.settings import LoadSettings
from tests.support.synthetic import small_shape


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Synthetic:
    folder = tmp_path_factory.mktemp("made")
    return write_synthetic(small_shape("qwen3"), GgmlType.Q8_0, folder, "small")


@pytest.fixture
def model(made: Synthetic) -> Generator[LoadedModel]:
    settings = LoadSettings(context=256, threads=1)
    loaded = LoadedModel(made.decoder, prefiller=made.prefiller, settings=settings)
    yield loaded
    loaded.close()


def children() -> list[psutil.Process]:
    return [
        child for child in psutil.Process().children() if "bare_library" in str(child.cmdline())
    ]


def test_rows_hold_each_methods_rounds_and_the_ratio_of_medians(model: LoadedModel) -> None:
    rounds: list[tuple[int, int, Method, float]] = []
    rows = measure_decode(
        model, prompt_tokens=40, tokens=6, repeat=3, on_round=lambda *one: rounds.append(one)
    )
    library, engine = rows
    assert (library.method, engine.method) == ("library", "engine")
    assert (library.path, engine.path) == ("decoder", "odp")
    assert library.ratio == 1
    assert engine.ratio == engine.median / library.median
    for row in rows:
        assert len(row.tps) == 3
        assert min(row.tps) > 0
        assert row.median == statistics.median(row.tps)
        assert row.gomp_spincount == os.environ["GOMP_SPINCOUNT"]
        assert (row.tokens, row.threads) == (6, 1)
    turns = ["library", "engine", "engine", "library", "library", "engine"]
    assert [(done, total, method) for done, total, method, _ in rounds] == [
        (number, 6, method) for number, method in enumerate(turns, start=1)
    ]
    assert children() == []


def test_the_engine_is_measured_after_an_odp_prefill(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths: list[int] = []
    read: list[int] = []
    next_token, prefill = model.next_token, model.prefill

    def counting() -> int:
        lengths.append(len(model.cached_tokens))
        return next_token()

    def prefilling(tokens: list[int], **rest: object) -> object:
        report = prefill(tokens, **rest)  # type: ignore[arg-type]
        read.append(report.bytes_read)
        return report

    monkeypatch.setattr(model, "next_token", counting)
    monkeypatch.setattr(model, "prefill", prefilling)
    monkeypatch.setattr(decode, "_WARM_UP", 1)
    measure_decode(model, prompt_tokens=40, tokens=3, repeat=1)
    assert model.prefiller is not None
    assert read == [model.prefiller.nbytes] * 2
    # The first token needs no evaluation; each later one adds the one before to the cache.
    assert lengths == [40, 40, 40, 40, 41, 42]
    assert len(model.cached_tokens) == 43


def test_without_a_prefiller_the_engine_reads_with_the_decoder(made: Synthetic) -> None:
    loaded = LoadedModel(made.decoder, settings=LoadSettings(context=128, threads=1))
    rows = measure_decode(loaded, prompt_tokens=40, tokens=2, repeat=1)
    loaded.close()
    assert [row.path for row in rows] == ["decoder", "decoder"]


def test_a_library_that_cannot_load_is_told_with_its_last_words(
    model: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "no-model.gguf").write_bytes(b"nothing")
    file = type("File", (), {"path": tmp_path / "no-model.gguf"})()
    monkeypatch.setattr(model, "files", type("Files", (), {"files": [file]})())
    with pytest.raises(BareLibraryFailed) as failed:
        measure_decode(model, prompt_tokens=40, tokens=2, repeat=1)
    assert "no-model.gguf could not be loaded" in failed.value.data["reason"]
    assert children() == []


@pytest.mark.parametrize("after", ["library", "engine"])
def test_stopping_ends_both_processes(model: LoadedModel, after: Method) -> None:
    cancellation = Cancellation()

    def on_round(done: int, total: int, method: Method, tps: float) -> None:
        del done, total, tps
        if method == after:
            cancellation.cancel()

    with pytest.raises(Stopped):
        measure_decode(
            model,
            prompt_tokens=40,
            tokens=2,
            repeat=9,
            on_round=on_round,
            cancellation=cancellation,
        )
    assert children() == []


def test_a_prompt_too_short_for_odp_is_refused(model: LoadedModel) -> None:
    with pytest.raises(PromptTooShort):
        measure_decode(model, prompt_tokens=10, tokens=2, repeat=1)
