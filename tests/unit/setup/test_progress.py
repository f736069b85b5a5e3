"""The progress line: quiet, counted, with an estimate."""

from __future__ import annotations

import io

import pytest

from setup import progress as module
from setup.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds, to be set by the test."""
    now = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def test_the_estimate_moves_from_the_expected_time_to_the_measured_one(clock: list[float]) -> None:
    progress = Progress(io.StringIO())
    with progress.step("building", expected_s=360):
        assert progress.line() == "Set-up: building, about 6 min left"
        clock[0] += 30
        progress.count(1, 100)
        assert progress.line() == "Set-up: building, [1/100], 30 s, about 6 min left"
        clock[0] += 30
        progress.count(50, 100)
        assert progress.line() == "Set-up: building, [50/100], 60 s, about 60 s left"


def test_a_terminal_gets_one_line_that_is_gone_in_the_end(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    terminal = Terminal()
    progress = Progress(terminal)
    with progress.step("building something with a name that is longer than the terminal is wide"):
        clock[0] += 5
        progress.tick()
    assert "\n" not in terminal.getvalue()
    assert max(map(len, terminal.getvalue().split("\r\x1b[K"))) < 40
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_a_log_gets_a_line_a_step_and_then_one_a_minute(clock: list[float]) -> None:
    log = io.StringIO()
    progress = Progress(log)
    with progress.step("building"):
        for _ in range(180):
            clock[0] += 1
            progress.tick()
    assert len(log.getvalue().splitlines()) == 4
    assert "\x1b" not in log.getvalue()
