"""`twofold serve` as a program: how it starts, what it prints, how it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from engine import paths
from engine.api.client import EngineClient, EngineError, EngineUnreachable
from engine.api.engine import LoadRequest
from engine.api.messages import Message
from engine.api.turn import TurnReport
from engine.demo import demo_prefiller
from tests.e2e.server.conftest import SMALL
from tests.support.running_server import command, running_server, until

pytestmark = pytest.mark.slow


def refused(home: Path, *arguments: str, **environment: str) -> str:
    """What a server says that does not start."""
    done = subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "TWOFOLD_HOME": str(home), **environment},
        timeout=60,
        check=False,
    )
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stderr
    assert not done.stdout
    return done.stderr


def test_it_prints_one_line_and_listens_on_loopback_only(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        assert server.address["host"] == "127.0.0.1"
        assert server.address["pid"] == server.process.pid
        assert server.port > 0
        assert len(server.token) > 30
        with server.client() as client:
            assert client.state().status == "empty"
            assert client.models() == []


def test_each_start_has_a_token_of_its_own(tmp_path: Path) -> None:
    with running_server(tmp_path) as one, running_server(tmp_path) as two:
        assert one.token != two.token
        with EngineClient(one.url, two.token) as stranger, pytest.raises(EngineError) as refusal:
            stranger.state()
        assert (refusal.value.status, refusal.value.code) == (401, "request.no_token")


def test_a_taken_port_is_told_in_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused(tmp_path, "--port", str(port))
    assert f"Port {port} at 127.0.0.1 is taken" in said


def test_an_address_that_is_not_ours_is_told(tmp_path: Path) -> None:
    assert "cannot listen at 203.0.113.1" in refused(tmp_path, "--host", "203.0.113.1")


def test_settings_come_from_file_environment_and_flags(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "settings.toml").write_text("[server]\nqueue = 3\n")
    token = "a-token-from-the-environment"
    with (
        running_server(
            tmp_path, "--set", "log.level=debug", environment={"TWOFOLD_SERVER_TOKEN": token}
        ) as server,
        server.client() as client,
    ):
        assert server.token == token
        found = {info.name: (info.value, info.source) for info in client.settings().settings}
    assert found["server.queue"] == (3, "file")
    assert found["server.token"] == ("set", "environment")
    assert found["log.level"] == ("debug", "flag")


def test_a_mistake_in_a_setting_gets_a_suggestion(tmp_path: Path) -> None:
    assert "Did you mean server.port?" in refused(tmp_path, "--set", "server.prot=1")
    assert "server.queue" in refused(tmp_path, TWOFOLD_SERVER_QUEUE="many")


def test_it_ends_with_the_program_that_it_is_for_and_ends_its_streams(tmp_path: Path) -> None:
    with running_server(tmp_path) as server, server.client() as client, client.events() as events:
        assert next(events).type == "state"
        assert server.end() == 0
        assert list(events) == [], "the stream ends, and is not cut off"


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_within_seconds_and_tells_its_clients(
    tmp_path: Path, tiny_path: Path, sent: signal.Signals
) -> None:
    with running_server(tmp_path) as server, server.client() as client:
        # An answer that does not end by itself: what was said is likelier each time.
        settings = SMALL.model_copy(update={"context": 32_768})
        client.load(LoadRequest(model=str(tiny_path), settings=settings))
        worker = server.worker
        started = 0.0
        with (
            pytest.raises(EngineError) as ended,
            client.chat(
                [Message(role="user", content="Hi")], temperature=0, frequency_penalty=-2
            ) as chunks,
        ):
            for chunk in chunks:
                if not started and any(choice.delta.content for choice in chunk.choices):
                    started = time.monotonic()
                    server.process.send_signal(sent)
        assert ended.value.code == "engine.stopping"
        server.process.wait(10)
        assert time.monotonic() - started < 8
        until(lambda: not worker.is_running(), 5)
        with pytest.raises(EngineUnreachable):
            client.state()


def test_a_model_can_be_loaded_from_the_start(tmp_path: Path, tiny_path: Path) -> None:
    with running_server(tmp_path, "-m", str(tiny_path)) as server, server.client() as client:
        until(lambda: client.state().status == "ready")
        assert client.models() == ["tiny"]
        assert client.count(text="four").tokens == len(client.tokenize("four")) > 0


def test_a_wrong_first_model_is_told_and_the_server_stays(tmp_path: Path) -> None:
    with running_server(tmp_path, "-m", "/no/such.gguf") as server, server.client() as client:
        assert client.state().status == "empty"
        until(lambda: any("/no/such.gguf" in line for line in server.stderr))


def test_prompts_and_answers_are_in_the_log_only_if_asked_for(
    tmp_path: Path, tiny_path: Path
) -> None:
    secret = Message(role="user", content="my-private-question")
    log = tmp_path / "logs" / "engine.log"
    with running_server(tmp_path, "--set", "log.level=debug") as server, server.client() as client:
        client.load(LoadRequest(model=str(tiny_path), settings=SMALL))
        for texts in (False, True):
            client.change_settings({"log.texts": texts})
            with client.chat([secret], max_tokens=3) as chunks:
                list(chunks)
            until(lambda: "request.ended" in log.read_text())
            assert ("my-private-question" in log.read_text()) == texts
    [last] = [line for line in log.read_text().splitlines() if "my-private-question" in line]
    assert json.loads(last)["answer_tokens"] == 3


def test_a_prompt_is_read_along_the_path_that_the_request_names(tmp_path: Path) -> None:
    """With the demo model and its prefiller: the answer says which path it was, and why."""
    model = paths.demo_model()
    request = LoadRequest(model=str(model), prefiller=str(demo_prefiller(model)), settings=SMALL)
    question = [Message(role="user", content="A ship is seen from the tower. " * 30)]
    with running_server(tmp_path) as server, server.client() as client:
        loaded = client.load(request)
        assert loaded.pairing == "matched_by_hash"
        reports: dict[str, TurnReport] = {}
        for path in ("odp", "decoder"):
            with client.turn(
                question, max_tokens=2, temperature=0, twofold={"path": path}
            ) as events:
                reports[path] = [event for event in events if isinstance(event, TurnReport)][-1]
    assert (reports["odp"].path, reports["decoder"].path) == ("odp", "decoder")
    assert reports["odp"].bytes_read >= loaded.prefiller_bytes
    assert reports["decoder"].bytes_read == 0
    assert reports["odp"].reason
