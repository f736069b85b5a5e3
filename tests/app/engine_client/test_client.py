"""The engine is started, watched and spoken to without ever blocking the window."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator

import psutil
import pytest
from pytestqt.qtbot import QtBot

from app.engine_client.client import Connection, EngineClient
from engine.api.engine import EngineState, LoadProgress
from engine.api.failure import Failure
from tests.support.fake_engine import FakeEngine


@pytest.fixture
def client(fake: FakeEngine, qtbot: QtBot) -> Generator[EngineClient]:
    made = EngineClient(fake.command)
    yield made
    made.close()
    made.deleteLater()
    qtbot.wait(10)


def test_it_connects_and_follows_the_engines_state(
    client: EngineClient, fake: FakeEngine, qtbot: QtBot
) -> None:
    client.start()
    assert client.connection is Connection.STARTING
    qtbot.waitUntil(lambda: client.connection is Connection.CONNECTED, timeout=10_000)
    seen: list[float] = []
    client.loading.connect(lambda progress: seen.append(progress.fraction))
    fake.publish(EngineState(status="loading"))
    fake.publish(LoadProgress(model="m", fraction=0.5, seconds=1.0))
    qtbot.waitUntil(lambda: seen == [0.5])
    fake.be_ready()
    qtbot.waitUntil(lambda: client.state.model is not None)


def test_its_death_is_an_event_with_a_reason_and_it_can_be_started_again(
    client: EngineClient, qtbot: QtBot
) -> None:
    client.start()
    qtbot.waitUntil(lambda: client.connection is Connection.CONNECTED, timeout=10_000)
    with qtbot.waitSignal(client.died) as died:
        os.kill(client.pid, signal.SIGKILL)
    assert died.args is not None
    problem: Failure = died.args[0]
    assert problem.code == "window.engine_died"
    assert problem.data == {"how": "signal 9"}
    assert client.connection is Connection.DIED
    client.start()
    qtbot.waitUntil(lambda: client.connection is Connection.CONNECTED, timeout=10_000)
    assert client.failure is None


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (["/nowhere/engine"], "No such file"),
        ([sys.executable, "-S", "-c", "import sys; sys.exit('no such option')"], "no such option"),
        ([sys.executable, "-S", "-c", "print('not json')"], "not json"),
    ],
)
def test_one_that_does_not_start_says_why(command: list[str], reason: str, qtbot: QtBot) -> None:
    client = EngineClient(command)
    with qtbot.waitSignal(client.died, timeout=10_000) as died:
        client.start()
    assert died.args is not None
    problem: Failure = died.args[0]
    assert problem.code == "window.engine_not_started"
    assert reason in problem.data["reason"]
    client.close()
    client.deleteLater()


def test_closing_ends_the_process(client: EngineClient, qtbot: QtBot) -> None:
    client.start()
    qtbot.waitUntil(lambda: client.connection is Connection.CONNECTED, timeout=10_000)
    process = psutil.Process(client.pid)
    client.close()
    assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_a_wrong_token_is_a_failure_with_the_engines_sentence(
    client: EngineClient, qtbot: QtBot
) -> None:
    client.start()
    qtbot.waitUntil(lambda: client.connection is Connection.CONNECTED, timeout=10_000)
    address = client.http._address  # pyright: ignore[reportPrivateUsage]
    assert address is not None
    client.http.set_address(type(address)(address.url, "wrong"))
    failures: list[Failure] = []
    client.unload(failures.append)
    qtbot.waitUntil(lambda: bool(failures))
    assert (failures[0].code, failures[0].sentence) == ("request.no_token", "No token.")
