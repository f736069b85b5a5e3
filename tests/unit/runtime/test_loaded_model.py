"""A loaded model on its real engine: paths, reports, memory, and prefillers that come and go."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.api.hardware import Host, Profile
from engine.api.plan import Plan
from engine.api.sampling import Drafts, SamplingSettings
from engine.api.turn import PathSetting
from engine.chat.model import CANCELLED_TOKEN, Progress
from engine.errors import NativeError, TwofoldError
from engine.native import native
from engine.planner.facts import model_facts, prefiller_facts
from engine.planner.layout import spread_order
from engine.planner.plan import make_plan
from engine.planner.request import PlanRequest
from engine.prefiller.build import build_prefiller
from engine.prefiller.errors import PairingRefused
from engine.prefiller.formats import open_prefiller
from engine.runtime import loaded_model, router
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


def test_prompts_attend_in_tiles_but_along_the_decoder(
    pair_of: MakePair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loaded_model, "attention_tokens", lambda _heads, _threads: 64)
    model = load(pair_of("llama"))
    for path, tokens, tiled in (
        ("decoder", 100, False),
        ("odp", 100, True),
        ("odp", 40, False),
        ("resident", 100, True),
    ):
        before = native().kernel_attentions()
        read(model, tokens, path)
        assert (native().kernel_attentions() > before) == tiled, path


def test_a_decoder_in_nvfp4_attends_in_tiles_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loaded_model, "attention_tokens", lambda _heads, _threads: 64)
    decoder = make_pair(tmp_path, "llama", weight_type="NVFP4").decoder
    model = LoadedModel(decoder, settings=LoadSettings(context=512, threads=1))
    before = native().kernel_attentions()
    read(model, 100, "decoder")
    assert native().kernel_attentions() > before


@pytest.fixture(scope="module", params=("llama", "qwen35"))
def few_bits(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """A decoder of two bits, whose answers a prefiller makes better."""
    folder = tmp_path_factory.mktemp("few-bits")
    return make_pair(folder, request.param, weight_type="IQ2_XXS", width=256, ffn=512, blocks=8)


@pytest.mark.parametrize("free_blocks", (0, 1, 5, 7, 8))
def test_on_auto_as_many_blocks_stay_in_memory_as_were_planned(
    few_bits: Pair, monkeypatch: pytest.MonkeyPatch, free_blocks: int
) -> None:
    """The plan of the tiers is what runs: its memory, its reads, and the logits of all resident."""
    pair = few_bits
    sizes = block_bytes(pair)
    whole = load(pair)
    read(whole, 300, "resident")
    wanted, checksum = whole.logits(), whole.decoder_checksum()
    model = load(pair)
    plan = limit_memory(model, monkeypatch, free_blocks)
    assert plan.tier_count("device") == min(free_blocks, len(sizes) - 1)

    report = read(model, 300, "auto")
    memory = model.prefill_memory
    assert same_bits(model.logits(), wanted)
    assert model.decoder_checksum() == checksum
    if free_blocks >= len(sizes):
        assert (report.path, report.bytes_read, memory.slots) == ("resident", 0, 0)
        return
    assert (report.path, report.reason.code) == ("odp", "route.best_answers")
    planned = {item.kind: item.bytes for item in plan.memory}
    assert memory.resident == pytest.approx(planned.get("resident_blocks", 0), abs=64 * 1024)
    assert memory.slots == pytest.approx(plan.slots * plan.slot_bytes, abs=64 * 1024)
    streamed = sum(size for size, tier in zip(sizes, plan.tiers, strict=True) if tier == "disk")
    assert report.bytes_read == pytest.approx(2 * streamed, abs=64 * 1024)  # two passes


def block_bytes(pair: Pair) -> list[int]:
    tensors = open_prefiller(pair.prefiller).tensors
    sizes = [0] * (1 + max(tensor.block for tensor in tensors))
    for tensor in tensors:
        sizes[tensor.block] += tensor.nbytes
    return sizes


def limit_memory(model: LoadedModel, monkeypatch: pytest.MonkeyPatch, blocks: int) -> Plan:
    """Leaves room for so many of the prefiller's blocks, on a disk so slow that nothing else
    counts: two passes then pay for loading at once. Gives the plan for it."""
    facts, prefiller = model_facts(model.files), model.prefiller
    assert prefiller is not None
    pair = prefiller_facts(prefiller, model.files, facts)
    own = model.memory.weights + model.memory.context + model.memory.compute
    request = PlanRequest(
        mode="odp", context=model.n_ctx, micro_batch=model.micro_batch,
        device_blocks=len(pair.block_bytes), replaced={"CPU": own},
    )  # fmt: skip

    def plan(free: int) -> Plan:
        host = Host(memory_total=64 << 30, memory_free=free)
        return make_plan(Profile(host=host), facts, pair, request)

    nothing = plan(32 << 30).pools[0].planned - sum(pair.block_bytes[: len(pair.block_bytes) - 1])
    # A quarter of what is free stays free. Half a block more than is needed.
    order = spread_order(len(pair.block_bytes))
    wanted = nothing + sum(pair.block_bytes[index] for index in order[:blocks])
    wanted += min(pair.block_bytes) // 2
    free = wanted * 4 // 3 - own
    memory = SimpleNamespace(total=64 << 30, available=free)
    monkeypatch.setattr(router.psutil, "virtual_memory", lambda: memory)
    monkeypatch.setattr(router, "measure_disk", lambda *_args: SimpleNamespace(gbps=1e-6))
    return plan(free)


def test_a_mix_of_tiers_is_given_up_for_a_path_that_the_user_fixes(
    few_bits: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(few_bits)
    limit_memory(model, monkeypatch, 2)
    read(model, 300, "auto")
    mixed = model.prefill_memory
    assert read(model, 300, "odp").path == "odp"
    assert model.prefill_memory.resident < mixed.resident
    assert read(model, 300, "resident").path == "resident"
    assert model.prefill_memory.resident > mixed.resident


@pytest.mark.parametrize("path", ("odp", "resident"))
def test_a_short_tail_goes_to_the_decoder_and_says_why(
    pair_of: MakePair, path: PathSetting
) -> None:
    model = load(pair_of("llama"))
    read(model, 100, path)
    report = model.prefill(prompt(31), path=path, on_progress=lambda _: None)
    assert report.path == "decoder"
    assert "31 tokens are too few" in report.reason.sentence
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


def test_drafts_change_no_answer_and_are_reported_only_when_verified(pair_of: MakePair) -> None:
    model = load(pair_of("llama"))
    wanted: list[int] = []
    model.always_draft(9)
    settings: tuple[Drafts, ...] = ("off", "auto")
    for drafts in settings:
        read(model, 300, "odp")
        model.start_sampling(SamplingSettings(temperature=0, drafts=drafts))
        model.constrain('root ::= ("again ")*')
        written = [model.next_token() for _ in range(60)]
        report = model.draft_report()
        if drafts == "off":
            wanted = written
            assert report is None
        else:
            assert written == wanted
            assert report is not None
            assert 0 < report.accepted_tokens <= report.drafted_tokens
            assert report.tau > 1
            assert report.accepted_by_position[0] > 0.5
            assert report.tps > 0 and report.baseline_tps > 0


def test_a_smaller_model_drafts_and_the_answer_is_the_same(pair_of: MakePair) -> None:
    pair = pair_of("llama")
    alone, drafted = (
        LoadedModel(pair.decoder, draft=draft, settings=LoadSettings(context=1024, threads=1))
        for draft in (None, pair.decoder)
    )
    answers: list[list[int]] = []
    for model in (alone, drafted):
        for always, count in ((0, 8), (5, 60)):  # passes without drafts are the baseline
            model.always_draft(always)
            read(model, 300, "decoder")
            model.start_sampling(SamplingSettings(temperature=0))
            answer = [model.next_token() for _ in range(count)]
        answers.append(answer)
    assert answers[0] == answers[1]
    report = drafted.draft_report()
    assert report is not None
    assert report.method == drafted.draft_method == "model"
    assert report.accepted_by_position[0] > 0.5
    assert alone.memory.drafter == 0 < drafted.memory.drafter


def test_a_model_of_other_tokens_or_a_mere_head_is_refused_as_a_drafter(
    pair_of: MakePair, tmp_path: Path
) -> None:
    pair = pair_of("llama")
    other = write_tiny(tmp_path / "other.gguf", "llama", vocab=320)
    spelled = write_tiny(tmp_path / "spelled.gguf", "llama", tokenizer="llama")
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(pair.decoder.read_bytes()[:-1000])

    def code(draft: Path) -> str:
        return code_of(lambda: LoadedModel(pair.decoder, draft=draft))

    assert code(other) == code(spelled) == "draft.pairing_refused"
    assert code(broken).startswith("gguf.")
    assert code(tmp_path / "none.gguf").startswith("gguf.")
