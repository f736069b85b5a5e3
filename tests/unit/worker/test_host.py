"""The worker's inside: commands in, replies out, in the order that a server can rely on."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator

import pytest

from engine.api.engine import LoadRequest, MemoryUse, ModelInfo
from engine.api.messages import Message
from engine.api.sampling import SamplingSettings
from engine.api.turn import TurnReport
from engine.runtime.loaded_model import OnLoad
from engine.worker.host import ModelHost
from engine.worker.loading import WorkerModel
from engine.worker.protocol import (
    Ask,
    Cancel,
    Complete,
    Count,
    Counted,
    Done,
    Event,
    Failed,
    Load,
    Loaded,
    Loading,
    Measure,
    Measured,
    Reply,
)
from tests.support.fake_model import CHATML, FakeModel

LOAD = Load(request=LoadRequest(model="m"))
HELLO = (Message(role="user", content="Hello"),)


class HostedModel(FakeModel):
    closed = False

    def memory_use(self) -> MemoryUse:
        return MemoryUse(weights=1, context=2, compute=3)

    def close(self) -> None:
        self.closed = True


class Hosted:
    """A host with one fake model, and its replies."""

    def __init__(self, model: HostedModel) -> None:
        self.replies: queue.Queue[Reply] = queue.Queue()
        self.model = model
        self.error: Exception | None = None
        self.host = ModelHost(self._open, self.replies.put)

    def _open(self, request: LoadRequest, on_load: OnLoad) -> tuple[WorkerModel, ModelInfo]:
        if self.error is not None:
            raise self.error
        assert on_load(0.5)
        info = ModelInfo.model_construct(id=request.model, memory=self.model.memory_use())
        return self.model, info

    def until(self, kind: type[Reply]) -> list[Reply]:
        """The replies up to the first of a kind."""
        found: list[Reply] = []
        while not found or not isinstance(found[-1], kind):
            found.append(self.replies.get(timeout=20))
        return found


@pytest.fixture
def hosted() -> Iterator[Hosted]:
    hosted = Hosted(HostedModel(b"Yes.", b"No."))
    yield hosted
    hosted.host.close()
    assert hosted.model.closed or not any(isinstance(r, Loaded) for r in hosted.replies.queue)


def ask(job: str = "1", **sampling: object) -> Ask:
    return Ask(id=job, messages=HELLO, sampling=SamplingSettings(**sampling), path="auto")  # type: ignore[arg-type]


def test_a_load_tells_its_progress_and_then_the_model(hosted: Hosted) -> None:
    hosted.host.obey(LOAD)
    kinds = [type(reply) for reply in hosted.until(Loaded)]
    assert kinds == [Loading, Loaded]


def test_an_answer_ends_with_its_report_and_done(hosted: Hosted) -> None:
    hosted.host.obey(LOAD)
    hosted.host.obey(ask())
    replies = hosted.until(Done)
    report = replies[-2]
    assert isinstance(report, Event)
    assert isinstance(report.event, TurnReport)
    assert report.event.message.content == "Yes."


def test_requests_are_answered_in_order(hosted: Hosted) -> None:
    hosted.host.obey(LOAD)
    hosted.host.obey(ask("1"))
    hosted.host.obey(Complete(id="2", prompt="Once", sampling=SamplingSettings(), path="auto"))
    done = [
        reply.id for reply in hosted.until(Done) + hosted.until(Done) if isinstance(reply, Done)
    ]
    assert done == ["1", "2"]


def test_a_request_before_the_model_fails_and_leaves_the_host_well(hosted: Hosted) -> None:
    hosted.host.obey(ask())
    failed = hosted.until(Failed)[-1]
    assert isinstance(failed, Failed)
    assert failed.failure.code == "worker.not_loaded"
    hosted.host.obey(LOAD)
    hosted.until(Loaded)


def test_an_unforeseen_exception_is_a_failure_without_the_users_words(hosted: Hosted) -> None:
    hosted.error = RuntimeError("secret")
    hosted.host.obey(LOAD)
    failed = hosted.until(Failed)[-1]
    assert isinstance(failed, Failed)
    assert failed.id is None
    assert failed.failure.code == "worker.unexpected"
    assert "RuntimeError" in failed.failure.sentence
    assert "secret" not in failed.model_dump_json()


def test_a_bad_schema_is_the_requests_failure(hosted: Hosted) -> None:
    hosted.host.obey(LOAD)
    hosted.host.obey(ask().model_copy(update={"json_schema": {"type": "no"}}))
    failed = hosted.until(Failed)[-1]
    assert isinstance(failed, Failed)
    assert (failed.id, failed.failure.code) == ("1", "grammar.bad_schema")


def test_a_call_that_has_to_be_made_bounds_the_answer(hosted: Hosted) -> None:
    tools = ({"type": "function", "function": {"name": "look"}},)
    must = {"tools": tools, "must_call": ("look",), "json_schema": {"type": "object"}}
    hosted.model.chat_template = CHATML + "{% if tools %}<tool_call>{{ tools }}{% endif %}"
    hosted.host.obey(LOAD)
    hosted.host.obey(ask("1").model_copy(update=must))
    hosted.until(Done)
    grammar = hosted.model.grammar or ""
    assert grammar.startswith(r'root ::= "<tool_call>\n{\"name\": \"look\"')


@pytest.mark.parametrize(
    ("template", "code"),
    [(CHATML, "chat.no_tools"), (CHATML + "{{ tools }}", "chat.no_tool_form")],
)
def test_a_call_that_cannot_be_required_is_refused(
    hosted: Hosted, template: str, code: str
) -> None:
    tools = ({"type": "function", "function": {"name": "look"}},)
    hosted.model.chat_template = template
    hosted.host.obey(LOAD)
    hosted.host.obey(ask("1").model_copy(update={"tools": tools, "must_call": ("look",)}))
    failed = hosted.until(Failed)[-1]
    assert isinstance(failed, Failed)
    assert failed.failure.code == code


def test_a_cancel_reaches_a_request_that_has_not_begun(hosted: Hosted) -> None:
    began, go = threading.Event(), threading.Event()

    def hold() -> None:
        began.set()
        go.wait(20)

    hosted.host.obey(LOAD)
    hosted.model.before_batch = hold
    hosted.host.obey(ask("1", max_tokens=1))
    assert began.wait(20)
    hosted.host.obey(ask("2"))
    hosted.host.obey(Cancel(id="2"))
    hosted.model.before_batch = lambda: None
    go.set()
    hosted.until(Done)
    report = hosted.until(Done)[-2]
    assert isinstance(report, Event)
    assert isinstance(report.event, TurnReport)
    assert report.event.stop_reason == "cancelled"


def test_counting_and_measuring(hosted: Hosted) -> None:
    hosted.host.obey(LOAD)
    hosted.until(Loaded)
    hosted.host.obey(Count(id="c", text="four"))
    counted = hosted.until(Counted)[-1]
    assert isinstance(counted, Counted)
    assert counted.tokens == tuple(b"four")
    hosted.host.obey(Measure(id="m"))
    measured = hosted.until(Measured)[-1]
    assert isinstance(measured, Measured)
    assert measured.memory.compute == 3
