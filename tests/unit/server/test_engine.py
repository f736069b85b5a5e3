"""The engine over a scripted worker: loads, requests, deaths, cancels, idleness."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

import psutil
import pytest

from engine.api.engine import EngineEvent, EngineState, LoadProgress, RequestProgress
from engine.api.messages import Message
from engine.api.sampling import SamplingSettings
from engine.api.turn import AnswerText, TurnReport
from engine.errors import TwofoldError
from engine.gguf.errors import Unreadable
from engine.probe import nvml
from engine.probe.nvml import CardFacts
from engine.server.engine import Engine
from engine.server.errors import Failed, NothingLoaded, QueueFull, Stopping
from engine.server.job import Job
from engine.worker.protocol import Ask, Count
from tests.unit.server.conftest import RunEngine, Scripted

LONG = "x" * 2000


def ask(engine: Engine, text: str = "Hello", max_tokens: int | None = None) -> Job:
    return engine.submit(
        Ask(
            id=engine.new_id("test"),
            messages=(Message(role="user", content=text),),
            sampling=SamplingSettings(max_tokens=max_tokens),
            path="auto",
        )
    )


async def answer(job: Job) -> str:
    return "".join([e.text async for e in job.events() if isinstance(e, AnswerText)])


async def report(job: Job) -> TurnReport:
    return [event async for event in job.events() if isinstance(event, TurnReport)][-1]


async def first(job: Job, kind: type = AnswerText) -> None:
    """Waits until an event of a kind has come, and leaves the rest."""
    async for event in job.events():
        if isinstance(event, kind):
            return


def test_the_answers_of_one_request_take_one_place_in_the_queue(
    run_engine: RunEngine, scripted: Scripted
) -> None:
    async def check() -> None:
        async with run_engine(queue=1) as engine:
            await engine.load(scripted(answers=["1", "x", "2"], token_s=0.02))
            commands = [
                Ask(
                    id=f"a.{index}",
                    messages=(Message(role="user", content="Hi"),),
                    sampling=SamplingSettings(),
                    path="auto",
                )
                for index in range(2)
            ]
            answers = engine.answers(commands, n=2)
            other = ask(engine)
            with pytest.raises(QueueFull):
                ask(engine)
            # The other one comes between them, and a full queue does not end what has begun.
            texts = [await answer(job) async for job in answers.jobs()]
            assert texts == ["1", "2"]
            assert await answer(other) == "x"

    asyncio.run(check())


def test_a_loaded_model_answers(run_engine: RunEngine, scripted: Scripted) -> None:
    async def check() -> None:
        async with run_engine() as engine:
            model = await engine.load(scripted(answers=["Yes.", "No."]))
            assert model.id == "model"
            assert engine.state().status == "ready"
            assert await answer(ask(engine)) == "Yes."
            assert await answer(ask(engine)) == "No."
            assert engine.state().running is None

    asyncio.run(check())


def test_without_a_model_nothing_is_answered(run_engine: RunEngine) -> None:
    async def check() -> None:
        async with run_engine() as engine:
            with pytest.raises(NothingLoaded):
                ask(engine)

    asyncio.run(check())


def test_a_request_waits_for_the_load(run_engine: RunEngine, scripted: Scripted) -> None:
    async def check() -> None:
        async with run_engine() as engine:
            loading = asyncio.create_task(engine.load(scripted(answers=["Late."], load_s=0.3)))
            await asyncio.sleep(0)
            assert await answer(ask(engine)) == "Late."
            await loading

    asyncio.run(check())


def test_loading_tells_how_far_it_is(run_engine: RunEngine, scripted: Scripted) -> None:
    async def check() -> None:
        async with run_engine() as engine:
            with engine.events.listening() as listener:
                await engine.load(scripted(load_s=0.4))
                events: list[EngineEvent | None] = [
                    listener.get_nowait() for _ in range(listener.qsize())
                ]
        states = [event.status for event in events if isinstance(event, EngineState)]
        assert states == ["loading", "ready"]
        progress = [event for event in events if isinstance(event, LoadProgress)]
        fractions = [event.fraction for event in progress]
        assert len(fractions) > 2
        assert fractions == sorted(fractions)
        assert progress[-1].remaining_s is not None

    asyncio.run(check())


def test_reading_a_prompt_tells_how_far_it_is(run_engine: RunEngine, scripted: Scripted) -> None:
    async def check() -> None:
        async with run_engine() as engine:
            await engine.load(scripted(answers=["x"], batch_s=0.06))
            with engine.events.listening() as listener:
                await answer(ask(engine, "y" * 100))
                events = [listener.get_nowait() for _ in range(listener.qsize())]
        done = [e.progress.tokens_done for e in events if isinstance(e, RequestProgress)]
        assert done[0] == 0
        assert len(done) > 3
        assert done == sorted(done)

    asyncio.run(check())


@pytest.mark.parametrize(
    ("die", "code"),
    [
        ("SIGKILL", "worker.killed"),
        ("SIGABRT", "worker.aborted"),
        ("SIGILL", "worker.illegal_instruction"),
        ("SIGSEGV", "worker.crashed"),
        ("exit", "worker.exited"),
    ],
)
def test_a_death_ends_the_stream_with_its_cause_and_a_new_load_works(
    run_engine: RunEngine, scripted: Scripted, die: str, code: str
) -> None:
    async def check() -> None:
        async with run_engine() as engine:
            await engine.load(
                scripted(answers=[LONG], die=die, die_at_token=5, last_words="GGML_ASSERT: no")
            )
            job = ask(engine)
            seen = 0
            with pytest.raises(Failed) as ended:
                async for event in job.events():
                    seen += isinstance(event, AnswerText)
            failure = ended.value.failure
            assert seen == 5
            assert failure.code == code
            assert failure.data["doing"] == "answering"
            assert "GGML_ASSERT: no" in failure.log
            assert "Your chats are safe" in failure.sentence or die == "SIGILL"
            state = engine.state()
            assert (state.status, state.failure, state.worker_pid) == ("failed", failure, None)
            with pytest.raises(Failed) as refused:
                ask(engine)
            assert refused.value.code == code
            await engine.load(scripted("other", answers=["Again."]))
            assert await answer(ask(engine)) == "Again."
            assert engine.state().failure is None

    asyncio.run(check())


@pytest.mark.parametrize("when", ["die_at_batch", "loading"])
def test_a_death_while_reading_or_loading_is_told_too(
    run_engine: RunEngine, scripted: Scripted, when: str
) -> None:
    async def check() -> None:
        async with run_engine() as engine:
            if when == "loading":
                with pytest.raises(Failed) as ended:
                    await engine.load(scripted(die="SIGKILL", load_s=0.1))
                assert ended.value.failure.data["doing"] == "being loaded"
            else:
                await engine.load(scripted(die="SIGKILL", die_at_batch=1))
                with pytest.raises(Failed) as ended:
                    await answer(ask(engine, "y" * 200))
            assert ended.value.code == "worker.killed"

    asyncio.run(check())


def test_those_who_wait_in_the_queue_learn_of_the_death(
    run_engine: RunEngine, scripted: Scripted
) -> None:
    async def check() -> None:
        async with run_engine() as engine:
            await engine.load(scripted(endless=True, die="SIGKILL", die_at_token=20, token_s=0.01))
            jobs = [ask(engine) for _ in range(3)]
            ends = await asyncio.gather(*map(answer, jobs), return_exceptions=True)
            assert [end.code for end in ends if isinstance(end, Failed)] == ["worker.killed"] * 3

    asyncio.run(check())


def test_a_failed_load_tells_why_and_leaves_no_process(
    run_engine: RunEngine, scripted: Scripted
) -> None:
    async def check() -> None:
        async with run_engine() as engine:
            with pytest.raises(Failed) as failed:
                await engine.load(scripted(load_error="model.load_failed"))
            assert failed.value.code == "model.load_failed"
            await asyncio.sleep(0.5)
            assert not _workers()

    asyncio.run(check())


def test_a_path_with_nothing_there_does_not_cost_the_loaded_model(
    run_engine: RunEngine, scripted: Scripted
) -> None:
    async def check() -> None:
        async with run_engine() as engine:
            request = scripted(answers=["Still here."])
            await engine.load(request)
            for wrong in ("/no/such.gguf", "/", "a\0b", "x" * 4000, "~nobody-at-all/x"):
                with pytest.raises(Unreadable):
                    await engine.load(request.model_copy(update={"model": wrong}))
            assert await answer(ask(engine)) == "Still here."

    asyncio.run(check())


def test_a_load_can_be_cancelled(run_engine: RunEngine, scripted: Scripted) -> None:
    async def check() -> None:
        async with run_engine() as engine:
            loading = asyncio.create_task(engine.load(scripted(load_s=30)))
            with engine.events.listening() as listener:
                while not isinstance(await listener.get(), LoadProgress):
                    pass
            started = time.monotonic()
            assert await engine.cancel_all() == 1
            with pytest.raises(Failed) as cancelled:
                await loading
            assert cancelled.value.code == "model.load_cancelled"
            assert time.monotonic() - started < 1
            assert engine.state().status == "empty"

    asyncio.run(check())


def test_another_load_replaces_one_under_way(run_engine: RunEngine, scripted: Scripted) -> None:
    async def check() -> None:
        async with run_engine() as engine:
            old = asyncio.create_task(engine.load(scripted("old", load_s=30)))
            await asyncio.sleep(0.3)
            new = await engine.load(scripted("new"))
            assert new.id == "new"
            with pytest.raises(Failed) as replaced:
                await old
            assert replaced.value.code == "engine.replaced"
            assert len(_workers()) == 1

    asyncio.run(check())


def test_one_request_runs_and_few_wait(run_engine: RunEngine, scripted: Scripted) -> None:
    async def check() -> None:
        async with run_engine(queue=2) as engine:
            await engine.load(scripted(answers=["a" * 20] * 3, token_s=0.01))
            jobs = [ask(engine) for _ in range(3)]
            with pytest.raises(QueueFull) as full:
                ask(engine)
            assert full.value.data["waiting"] == 2
            await first(jobs[0])
            assert engine.state().waiting == 2
            running = engine.state().running
            assert running is not None
            assert running.id == jobs[0].id
            assert await answer(jobs[1]) == await answer(jobs[2]) == "a" * 20

    asyncio.run(check())


@pytest.mark.parametrize("prompt", ["Hi", "y" * 3000])
def test_a_cancel_works_within_a_second(
    run_engine: RunEngine, scripted: Scripted, prompt: str
) -> None:
    """While a long prompt is read, and while an answer is written."""

    async def check() -> None:
        async with run_engine() as engine:
            await engine.load(scripted(endless=True, token_s=0.02, batch_s=0.05))
            job = ask(engine, prompt)
            await asyncio.sleep(0.4)
            started = time.monotonic()
            engine.cancel(job)
            assert (await report(job)).stop_reason == "cancelled"
            assert time.monotonic() - started < 1
            assert (await report(ask(engine, "Hi", max_tokens=3))).stop_reason == "length"

    asyncio.run(check())


def test_a_waiting_request_that_is_cancelled_frees_its_place(
    run_engine: RunEngine, scripted: Scripted
) -> None:
    async def check() -> None:
        async with run_engine(queue=1) as engine:
            await engine.load(scripted(endless=True, token_s=0.02))
            running, waiting = ask(engine), ask(engine)
            await first(running)
            engine.cancel(waiting)
            with pytest.raises(Failed) as stopped:
                await answer(waiting)
            assert stopped.value.code == "engine.stopped"
            again = ask(engine, max_tokens=2)
            engine.cancel(running)
            assert (await report(again)).stop_reason == "length"

    asyncio.run(check())


def test_a_worker_that_does_not_stop_is_ended(run_engine: RunEngine, scripted: Scripted) -> None:
    async def check() -> None:
        async with run_engine(hang_s=0.3) as engine:
            await engine.load(scripted(batch_s=0.2, deaf=True))
            job = ask(engine, "y" * 3000)
            await asyncio.sleep(0.3)
            engine.cancel(job)
            with pytest.raises(Failed) as hung:
                await answer(job)
            assert hung.value.code == "worker.hung"

    asyncio.run(check())


def test_unloading_ends_the_process_and_the_requests(
    run_engine: RunEngine, scripted: Scripted
) -> None:
    async def check() -> None:
        async with run_engine() as engine:
            await engine.load(scripted(endless=True, token_s=0.02))
            job = ask(engine)
            await first(job)
            await engine.unload()
            assert not _workers()
            assert engine.state().status == "empty"
            with pytest.raises(NothingLoaded):
                ask(engine)

    asyncio.run(check())


def test_an_idle_model_is_unloaded_and_comes_back_when_asked(
    run_engine: RunEngine, scripted: Scripted
) -> None:
    async def check() -> None:
        async with run_engine(idle_s=0.3) as engine:
            await engine.load(scripted(answers=["a" * 30], token_s=0.02))
            assert engine.state().idle_unload_s == pytest.approx(0.3, abs=0.2)
            assert await answer(ask(engine)) == "a" * 30, "a model that works is not idle"
            assert engine.state().status == "ready"
            await _until(lambda: engine.state().worker_pid is None)
            await _until(lambda: not _workers())
            assert engine.model is not None
            assert engine.model.id == "model"
            assert await answer(ask(engine)) == "a" * 30

    asyncio.run(check())


def test_tokens_are_counted_while_the_model_works(
    run_engine: RunEngine, scripted: Scripted
) -> None:
    async def check() -> None:
        async with run_engine() as engine:
            await engine.load(scripted(endless=True, token_s=0.05))
            job = ask(engine)
            await first(job)
            assert len(await engine.tokens(Count(id="1", text="seven c"))) == 7
            conversation = (Message(role="user", content="Hi"),)
            assert len(await engine.tokens(Count(id="2", messages=conversation))) > 7
            assert engine.state().running is not None
            engine.cancel(job)

    asyncio.run(check())


def test_memory_is_measured_in_the_worker(run_engine: RunEngine, scripted: Scripted) -> None:
    async def check() -> None:
        async with run_engine() as engine:
            assert (await engine.memory()).model is None
            await engine.load(scripted(answers=["Yes."]))
            await answer(ask(engine))
            memory = await engine.memory()
            assert memory.model is not None
            assert memory.model.context > 10, "what the cache holds now"
            assert memory.worker_resident > 1 << 20

    asyncio.run(check())


def test_memory_of_cards_is_what_their_driver_counts(
    run_engine: RunEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = CardFacts(memory_total=24_000, memory_free=20_000)
    found = {"0000:01:00.0": known, "0000:02:00.0": CardFacts(memory_total=8_000)}
    monkeypatch.setattr(nvml, "cards", lambda _pid: found)

    async def check() -> None:
        async with run_engine() as engine:
            (card,) = (await engine.memory()).cards
            assert (card.bus_id, card.total, card.free) == ("0000:01:00.0", 24_000, 20_000)

    asyncio.run(check())


def test_closing_tells_those_who_wait(run_engine: RunEngine, scripted: Scripted) -> None:
    async def check() -> None:
        async with run_engine() as engine:
            await engine.load(scripted(endless=True, token_s=0.02))
            jobs = [ask(engine), ask(engine)]
            await first(jobs[0])
            await engine.close()
            with pytest.raises(Failed) as ended:
                await answer(jobs[1])
            assert ended.value.code == "engine.stopping"
            with pytest.raises(Stopping):
                ask(engine)
            assert not _workers()

    asyncio.run(check())


def test_a_refused_conversation_leaves_the_model_in_use(
    run_engine: RunEngine, scripted: Scripted
) -> None:
    async def check() -> None:
        async with run_engine() as engine:
            await engine.load(scripted(answers=["Yes."], context=200))
            with pytest.raises(TwofoldError) as refused:
                await answer(ask(engine, LONG))
            assert refused.value.code == "chat.context_overflow"
            assert await answer(ask(engine)) == "Yes."

    asyncio.run(check())


def _workers() -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):  # a zombie counts as none
            if "tests.support.scripted_worker" in child.cmdline():
                found.append(child)
    return found


async def _until(true: Callable[[], bool], seconds: float = 5.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        await asyncio.sleep(0.02)


def test_a_worker_that_dies_for_lack_of_device_memory_says_so(
    run_engine: RunEngine, scripted: Scripted
) -> None:
    async def check() -> None:
        async with run_engine() as engine:
            words = "failed to allocate Vulkan0 buffer of size 1073741824"
            script = scripted(
                answers=[LONG], die="SIGABRT", die_at_token=5, last_words=f"reserve: {words}"
            )
            await engine.load(script)
            with pytest.raises(Failed) as ended:
                async for _ in ask(engine).events():
                    pass
            assert ended.value.failure.code == "worker.device_memory"
            assert "1.00 GiB more were wanted" in ended.value.failure.sentence

    asyncio.run(check())
