"""A loaded model on its real engine: paths, reports, memory, and prefillers that come and go."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.api.sampling import SamplingSettings
from engine.api.turn import PathSetting
from engine.chat.model import CANCELLED_TOKEN, Progress
from engine.errors import NativeError, TwofoldError
from engine.prefiller.build import build_prefiller
from engine.prefiller.errors import PairingRefused
from engine.prefiller.formats import open_prefiller
from engine.runtime.loaded_model import LoadedModel
from engine.runtime.routing import NoPrefiller
from engine.runtime.settings import LoadSettings
from tests.support.sessions import MakePair, Pair, make_pair, prompt, same_bits
from tests.support.tiny_models import write_tiny

MIB = 1 << 20
SMALL = LoadSettings(context=1024, micro_batch=256, threads=1)


def load(pair: Pair, settings: LoadSettings = SMALL, **options: Any) -> LoadedModel:
    return LoadedModel(pair.decoder, prefiller=pair.prefiller, settings=settings, **options)


def read(model: LoadedModel, length: int, path: Any, on_progress: Any = None) -> Any:
    model.keep(0)
    return model.prefill(prompt(length), path=path, on_progress=on_progress or (lambda _: None))


def greedy(model: LoadedModel, count: int) -> list[int]:
    model.start_sampling(SamplingSettings(temperature=0))
    return [model.next_token() for _ in range(count)]


def test_each_path_reports_itself_and_what_it_read(pair_of: MakePair) -> None:
    model = load(pair_of("llama"))
    weights = open_prefiller(pair_of("llama").prefiller).nbytes
    reports = {path: read(model, 300, path) for path in ("decoder", "resident", "odp")}
    assert [report.path for report in reports.values()] == list(reports)
    assert all(report.tokens == 300 and not report.cancelled for report in reports.values())
    assert reports["decoder"].bytes_read == reports["resident"].bytes_read == 0
    # Once for each of two passes, with the padding between tensors.
    assert 2 * weights <= reports["odp"].bytes_read < 2 * pair_of("llama").prefiller.stat().st_size
    assert reports["decoder"].weight_bytes == 0
    size = pair_of("llama").prefiller.stat().st_size
    assert weights < reports["resident"].weight_bytes < size + 64 * 1024
    assert 0 < reports["odp"].weight_bytes < reports["resident"].weight_bytes


def test_paths_can_change_from_prompt_to_prompt(pair_of: MakePair) -> None:
    model = load(pair_of("qwen35"))
    checksum = model.decoder_checksum()
    found: dict[str, Any] = {}
    for path in ("odp", "decoder", "resident", "odp", "resident", "decoder", "odp"):
        read(model, 100, path)
        logits = model.logits()
        assert same_bits(logits, found.setdefault(path, logits))
    assert same_bits(found["odp"], found["resident"])
    assert not same_bits(found["odp"], found["decoder"])
    assert model.decoder_checksum() == checksum


@pytest.mark.parametrize("path", ("odp", "resident"))
def test_a_short_tail_goes_to_the_decoder_and_says_why(
    pair_of: MakePair, path: PathSetting
) -> None:
    model = load(pair_of("llama"))
    read(model, 100, path)
    report = model.prefill(prompt(31), path=path, on_progress=lambda _: None)
    assert report.path == "decoder"
    assert "31 tokens are too few" in report.reason
    assert report.weight_bytes == report.bytes_read == 0


def test_progress_begins_with_nothing_done_and_ends_with_all(pair_of: MakePair) -> None:
    model = load(pair_of("llama"))
    for path in ("resident", "odp", "decoder"):
        seen: list[Progress] = []
        read(model, 600, path, seen.append)
        done = [one.tokens_done for one in seen]
        assert (done[0], done[-1]) == (0, 600)
        assert done == sorted(done)
        assert {one.path for one in seen} == {path}
        assert {one.tokens_total for one in seen} == {600}


def test_a_prefiller_is_loaded_before_progress_is_silent_for_long(pair_of: MakePair) -> None:
    """Reading it into memory reports itself, and its cancel leaves the model as it was."""
    model = load(pair_of("llama"))
    seen: list[Progress] = []

    def cancel_while_loading(progress: Progress) -> None:
        seen.append(progress)
        model.cancel()

    report = read(model, 100, "resident", cancel_while_loading)
    assert report.cancelled
    assert report.tokens == 0
    assert len(seen) <= 3
    assert read(model, 100, "resident").tokens == 100


def test_cancelling_from_another_thread_gives_a_report(pair_of: MakePair) -> None:
    model = load(pair_of("llama"), SMALL.model_copy(update={"micro_batch": 32}))
    for path in ("decoder", "resident", "odp"):
        started = threading.Event()

        def on_progress(progress: Progress, started: threading.Event = started) -> None:
            if progress.tokens_done:
                started.set()
                time.sleep(0.02)

        thread = threading.Thread(target=lambda event=started: event.wait(20) and model.cancel())
        thread.start()
        report = read(model, 1000, path, on_progress)
        thread.join()
        assert report.cancelled
        assert report.tokens == len(model.cached_tokens) < 1000
        assert model.cached_tokens == prompt(1000)[: report.tokens]


def test_a_cancelled_answer_gives_the_cancelled_token_and_the_next_prompt_works(
    pair_of: MakePair,
) -> None:
    model = load(pair_of("llama"))
    read(model, 40, "odp")
    wanted = greedy(model, 5)
    read(model, 40, "odp")
    model.start_sampling(SamplingSettings(temperature=0))
    model.next_token()
    model.cancel()
    assert model.next_token() == CANCELLED_TOKEN
    read(model, 40, "odp")
    assert greedy(model, 5) == wanted


def test_without_a_prefiller_its_paths_are_refused(pair_of: MakePair) -> None:
    model = LoadedModel(pair_of("llama").decoder, settings=SMALL)
    for path in ("odp", "resident"):
        with pytest.raises(NoPrefiller):
            read(model, 100, path)
    assert read(model, 100, "auto").path == "decoder"


def test_a_prefiller_of_another_decoder_needs_force(tmp_path: Path) -> None:
    ours, other = (write_tiny(tmp_path / f"{seed}.gguf", "llama", seed=seed) for seed in (0, 1))
    theirs = build_prefiller(other, tmp_path / "p.gguf").path
    with pytest.raises(PairingRefused):
        LoadedModel(ours, prefiller=theirs, settings=SMALL)
    forced = LoadedModel(ours, prefiller=theirs, force_pairing=True, settings=SMALL)
    answers: list[list[int]] = []
    for path in ("odp", "decoder"):
        read(forced, 200, path)
        answers.append(greedy(forced, 12))
    theirs_alone = LoadedModel(other, settings=SMALL)
    read(theirs_alone, 200, "decoder")
    answers.append(greedy(theirs_alone, 12))
    assert len({tuple(answer) for answer in answers}) == 3


@pytest.mark.parametrize("path", ("odp", "resident"))
def test_a_prefiller_that_was_built_anew_is_read_anew(tmp_path: Path, path: str) -> None:
    pair = make_pair(tmp_path, "llama")
    model, other_path = load(pair), "resident" if path == "odp" else "odp"
    read(model, 100, path)
    before = model.logits()
    source = write_tiny(tmp_path / "better.gguf", "llama", seed=5, weight_type="F16")
    build_prefiller(pair.decoder, pair.prefiller, source=source, overwrite=True)

    if path == "odp":  # it notices by itself; in memory the old one is as good as it was
        with pytest.raises(NativeError, match="file_changed"):
            read(model, 100, path)
        assert model.cached_tokens == []
    read(model, 100, other_path)
    after = model.logits()
    read(model, 100, path)
    assert same_bits(model.logits(), after)
    assert not same_bits(after, before)
    fresh = load(pair)
    read(fresh, 100, path)
    assert same_bits(fresh.logits(), after)


def test_a_prefiller_replaced_by_one_of_another_decoder_is_refused(tmp_path: Path) -> None:
    pair = make_pair(tmp_path, "llama")
    model = load(pair)
    read(model, 100, "odp")
    other = write_tiny(tmp_path / "other.gguf", "llama", seed=7)
    build_prefiller(other, pair.prefiller, overwrite=True)
    codes = [code_of(lambda: read(model, 100, "odp")) for _ in range(3)]
    assert codes == ["disk.file_changed", PairingRefused.code, PairingRefused.code]
    assert read(model, 100, "decoder").tokens == 100


def test_a_prefiller_that_is_gone_and_comes_back(tmp_path: Path) -> None:
    pair = make_pair(tmp_path, "llama")
    model, away = load(pair), tmp_path / "away"
    read(model, 100, "odp")
    wanted = model.logits()
    shutil.move(pair.prefiller, away)
    for _ in range(2):
        code_of(lambda: read(model, 100, "odp"))
    assert read(model, 100, "decoder").tokens == 100
    shutil.move(away, pair.prefiller)
    read(model, 100, "odp")
    assert same_bits(model.logits(), wanted)


def test_releasing_the_prefiller_frees_it_until_a_path_wants_it(pair_of: MakePair) -> None:
    model = load(pair_of("llama"))
    read(model, 100, "resident")
    wanted = model.logits()
    assert model.prefill_memory.weights > 0
    model.release()
    assert model.prefill_memory.weights == 0
    assert read(model, 100, "resident").path == "resident"
    assert same_bits(model.logits(), wanted)


@pytest.mark.parametrize("slots", (2, 3))
def test_streaming_holds_no_more_than_its_slots(smol: Pair, slots: int) -> None:
    """At most two slots and a MiB; and where the decoder lends them, nothing is allocated."""
    model = load(smol, SMALL.model_copy(update={"slots": slots}))
    model.prepare("odp")
    memory = model.prefill_memory
    sizes: dict[int, int] = {}
    for tensor in open_prefiller(smol.prefiller).tensors:
        sizes[tensor.block] = sizes.get(tensor.block, 0) + tensor.nbytes
    assert memory.slot_count == slots
    assert memory.slots_allocated == 0
    assert memory.lent > 0
    assert memory.weights <= slots * max(sizes.values()) + MIB


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises(TwofoldError) as caught:
        call()
    return caught.value.code
