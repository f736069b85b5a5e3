"""A scripted engine on a real socket: the routes that the window uses, and answers as told."""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from engine.api.engine import EngineEvent, EngineState, MemoryUse, ModelInfo
from engine.api.failure import Failure
from engine.api.messages import Message
from engine.api.models import JobInfo, JobList
from engine.api.turn import PrefillProgress, TurnReport, TurnStarted

# What a script gives: text of the answer, or one of these.


@dataclass(frozen=True)
class Thought:
    text: str


@dataclass(frozen=True)
class Pause:
    seconds: float


@dataclass(frozen=True)
class WaitForStop:
    """Until the window asks to stop; then the turn ends as cancelled."""


@dataclass(frozen=True)
class Drop:
    """The connection breaks."""


NO_ROUTE = Failure(code="request.no_route", sentence="The engine has no such route.")

Step = str | Thought | Pause | WaitForStop | Drop | PrefillProgress | Failure
Script = Callable[[dict[str, Any]], Iterable[Step]]
Listener = queue.SimpleQueue[str | None]
Listeners = list[Listener]


def model(context: int = 8192) -> ModelInfo:
    return ModelInfo(
        id="fake",
        path=Path("fake.gguf"),
        name="Fake",
        architecture="llama",
        file_bytes=1,
        context=context,
        trained_context=context,
        micro_batch=512,
        blocks=4,
        memory=MemoryUse(weights=1, context=1, compute=1),
    )


def progress(done: int = 100, total: int = 400, block: int = 2) -> PrefillProgress:
    return PrefillProgress(
        path="odp",
        reason="told to",
        tokens_done=done,
        tokens_total=total,
        block=block,
        blocks=4,
        bytes_read=2_000_000_000,
        seconds=1.0,
        bytes_per_s=2e9,
        remaining_s=(total - done) / done if done else None,
    )


@dataclass
class FakeEngine:
    """`script` makes each answer; `asked` are the requests so far; `publish` tells the state."""

    script: Script = lambda _body: ["Hello."]
    state: EngineState = field(default_factory=lambda: EngineState(status="empty"))
    asked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    loads: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    refuse: Failure | None = None
    # What other routes answer, by method and path: a body, a Failure, or a stream's events.
    answers: dict[str, Any] = field(default_factory=dict[str, Any])
    posted: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    jobs: tuple[JobInfo, ...] = ()

    def __post_init__(self) -> None:
        self.stop_asked = threading.Event()
        self._listeners: Listeners = []
        self._job_listeners: Listeners = []
        self._closing = False
        engine = self

        class Handler(_Handler):
            fake = engine

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = False
        self._server.block_on_close = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def command(self) -> list[str]:
        """A process that says where this server is and ends with its standard input."""
        where = json.dumps({"url": f"http://127.0.0.1:{self._server.server_port}", "token": "t"})
        code = f"import sys; print({where!r}, flush=True); sys.stdin.read()"
        return [sys.executable, "-S", "-c", code]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True
        self.stop_asked.set()
        for listener in [*self._listeners, *self._job_listeners]:
            listener.put(None)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def publish_jobs(self, *jobs: JobInfo) -> None:
        self.jobs = jobs
        text = JobList(jobs=jobs).model_dump_json()
        for listener in list(self._job_listeners):
            listener.put(text)

    def be_ready(self, context: int = 8192) -> None:
        self.publish(EngineState(status="ready", model=model(context)))

    def publish(self, event: EngineEvent) -> None:
        if isinstance(event, EngineState):
            self.state = event
        for listener in list(self._listeners):
            listener.put(event.model_dump_json())

    @property
    def closing(self) -> bool:
        return self._closing

    def listen(self, path: str) -> tuple[Listeners, Listener]:
        """A listener to the events of `path`, among all of that path."""
        jobs = path == "/twofold/models/events"
        listeners = self._job_listeners if jobs else self._listeners
        listener: Listener = queue.SimpleQueue()
        now = JobList(jobs=self.jobs) if jobs else self.state
        listener.put(now.model_dump_json())
        listeners.append(listener)
        return listeners, listener


class _Handler(BaseHTTPRequestHandler):
    fake: FakeEngine
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        del format, args

    def do_GET(self) -> None:
        if self.path not in ("/twofold/events", "/twofold/models/events"):
            self._as_told("GET", None)
            return
        listeners, listener = self.fake.listen(self.path)
        self._begin_stream()
        try:
            while (text := listener.get()) is not None:
                self._event(text)
        except OSError:
            pass
        finally:
            listeners.remove(listener)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers["Authorization"] != "Bearer t":
            self._error(401, Failure(code="request.no_token", sentence="No token."))
        elif self.path == "/v1/chat/completions":
            self._answer(body)
        elif self.path == "/twofold/cancel":
            self.fake.stop_asked.set()
            self._json({"cancelled": 1})
        elif self.path == "/twofold/count":
            texts = [item["content"] for item in body.get("messages") or ()]
            length = len("".join([body.get("text") or "", *texts]))
            self._json({"tokens": length // 4, "context": 8192})
        elif self.path == "/twofold/load":
            self.fake.loads.append(body)
            self.fake.be_ready()
            self._json(model().model_dump(mode="json"))
        else:
            self._as_told("POST", body)

    def do_PUT(self) -> None:
        self._as_told("PUT", json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _as_told(self, method: str, body: Any) -> None:
        if body is not None:
            self.fake.posted.append((self.path, body))
        answer = self.fake.answers.get(f"{method} {self.path}", NO_ROUTE)
        if callable(answer):
            answer = answer(body)
        if isinstance(answer, Failure):
            self._error(400, answer)
        elif isinstance(answer, list):
            self._begin_stream()
            for event in answer:  # pyright: ignore[reportUnknownVariableType]
                self._event(json.dumps(event))
            self._event("[DONE]")
        else:
            self._json(answer)

    def _answer(self, body: dict[str, Any]) -> None:
        fake = self.fake
        fake.asked.append(body)
        fake.stop_asked.clear()
        if fake.refuse is not None:
            self._error(400, fake.refuse)
            return
        self._begin_stream()
        content: list[str] = []
        reasoning: list[str] = []
        stop = "eos"
        try:
            self._chunk([])
            started = TurnStarted(
                prompt_tokens=50, cached_tokens=0, new_tokens=50, context_tokens=8192
            )
            self._chunk([], started.model_dump(mode="json"))
            for step in fake.script(body):
                if fake.closing:
                    return
                match step:
                    case str():
                        content.append(step)
                        self._chunk([{"delta": {"content": step}}])
                    case Thought():
                        reasoning.append(step.text)
                        self._chunk([{"delta": {"reasoning_content": step.text}}])
                    case Pause():
                        time.sleep(step.seconds)
                    case WaitForStop():
                        fake.stop_asked.wait(20)
                        stop = "cancelled"
                        break
                    case Drop():
                        self.connection.close()
                        return
                    case PrefillProgress():
                        self._chunk([], step.model_dump(mode="json"))
                    case Failure():
                        self._event(json.dumps(_error_body(step)))
                        self._event("[DONE]")
                        return
            report = TurnReport(
                message=Message(
                    role="assistant",
                    content="".join(content),
                    reasoning="".join(reasoning) or None,
                ),
                stop_reason=stop,  # pyright: ignore[reportArgumentType]
                path="odp",
                reason="told to",
                prompt_tokens=50,
                cached_tokens=0,
                new_tokens=50,
                answer_tokens=[1] * max(1, len(content)),
                seed=7,
                ttft_s=0.5,
                decode_tps=31.0,
                reasoning_s=2.0 if reasoning else None,
            )
            self._chunk([], report.model_dump(mode="json"))
            self._event("[DONE]")
        except OSError:
            return

    def _chunk(self, choices: list[dict[str, Any]], twofold: dict[str, Any] | None = None) -> None:
        chunk: dict[str, Any] = {"id": "chatcmpl-1", "choices": choices}
        if twofold is not None:
            chunk["twofold"] = twofold
        self._event(json.dumps(chunk))

    def _begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True

    def _event(self, text: str) -> None:
        self.wfile.write(f"data: {text}\n\n".encode())
        self.wfile.flush()

    def _json(self, body: Any, status: int = 200) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)
        self.close_connection = True

    def _error(self, status: int, problem: Failure) -> None:
        self._json(_error_body(problem), status)


def _error_body(problem: Failure) -> dict[str, Any]:
    return {
        "error": {
            "code": problem.code,
            "message": problem.sentence,
            "type": "server_error",
            "data": problem.data,
            "log": list(problem.log),
        }
    }
