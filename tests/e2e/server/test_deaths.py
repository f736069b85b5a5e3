"""The model's process dies at bad moments; the server tells why and goes on."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from engine import paths
from engine.api.client import EngineError
from engine.api.engine import LoadRequest
from engine.api.messages import Message
from engine.api.turn import AnswerText, PrefillProgress, TurnReport
from tests.e2e.server.conftest import SMALL
from tests.support.running_server import RunningServer, running_server, until

pytestmark = pytest.mark.slow

LONG = [Message(role="user", content="A lighthouse stands on the cliff. " * 220)]
SHORT = [Message(role="user", content="Tell me a very long story.")]


def reload(server: RunningServer) -> None:
    """The same model again, and an answer from it."""
    with server.client() as client:
        client.load(LoadRequest(model=str(paths.demo_model()), settings=SMALL))
        with client.chat(SHORT, max_tokens=2) as chunks:
            assert [c for c in chunks if c.choices][-1].choices[0].finish_reason == "length"


@pytest.mark.parametrize(
    ("sent", "code"), [(signal.SIGKILL, "worker.killed"), (signal.SIGABRT, "worker.aborted")]
)
def test_a_kill_while_the_prompt_is_read_ends_the_stream_with_the_cause(
    demo: RunningServer, sent: signal.Signals, code: str
) -> None:
    worker = demo.worker
    with demo.client() as client:
        with pytest.raises(EngineError) as died, client.turn(LONG) as events:
            for event in events:
                if isinstance(event, PrefillProgress) and event.tokens_done:
                    worker.send_signal(sent)
                assert not isinstance(event, (AnswerText, TurnReport))
        assert died.value.code == code
        assert died.value.failure.data["doing"] == "answering"
        state = client.state()
        assert state.status == "failed"
        assert state.failure is not None
        assert state.failure.code == code
    reload(demo)


def test_a_kill_while_the_answer_is_written_ends_the_stream_with_the_cause(
    demo: RunningServer,
) -> None:
    worker = demo.worker
    texts = 0
    with demo.client() as client:
        with pytest.raises(EngineError) as died, client.chat(SHORT) as chunks:
            for chunk in chunks:
                texts += any(choice.delta.content for choice in chunk.choices)
                if texts == 5:
                    worker.kill()
        assert died.value.code == "worker.killed"
        assert texts >= 5
        with pytest.raises(EngineError) as refused, client.chat(SHORT) as chunks:
            next(chunks)
        assert (refused.value.code, refused.value.status) == ("worker.killed", 503)
    reload(demo)


def test_the_server_itself_never_loads_the_library(demo: RunningServer) -> None:
    maps = psutil.Process(demo.process.pid).memory_maps()
    assert not [m.path for m in maps if "llama" in m.path or "_native" in m.path]
    assert [m.path for m in demo.worker.memory_maps() if "libllama" in m.path]


def test_a_stop_works_within_a_second_while_a_prompt_is_read(demo: RunningServer) -> None:
    with demo.client() as client, client.turn(LONG) as events:
        stopped = 0.0
        report: TurnReport | None = None
        for event in events:
            if isinstance(event, PrefillProgress) and event.tokens_done and not stopped:
                with demo.client() as other:
                    assert other.cancel() == 1
                stopped = time.monotonic()
            if isinstance(event, TurnReport):
                report = event
        assert report is not None
        assert report.stop_reason == "cancelled"
        assert time.monotonic() - stopped < 1


def test_leaving_stops_the_work_within_a_second(demo: RunningServer) -> None:
    with demo.client() as client:
        with client.turn(LONG) as events:
            for event in events:
                if isinstance(event, PrefillProgress) and event.tokens_done:
                    break
        left = time.monotonic()
        until(lambda: client.state().running is None, 5)
        assert time.monotonic() - left < 1


def test_a_killed_server_leaves_no_worker_behind(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        with server.client() as client:
            client.load(LoadRequest(model=str(paths.demo_model()), settings=SMALL))
        worker = server.worker
        os.kill(server.process.pid, signal.SIGKILL)
        worker.wait(10)
