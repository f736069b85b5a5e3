"""The window on a real display (Xvfb), from the first run to another start, by clicks and keys."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine.demo import demo_prefiller
from engine.paths import demo_model
from tests.support.display import display

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform != "linux", reason="Xvfb is for Linux"),
]


def play(part: str, home: Path, screen: str, *, ends_with: int = 0) -> dict[str, Any]:
    environment = dict(os.environ) | {
        "DISPLAY": screen,
        "QT_QPA_PLATFORM": "xcb",
        "TWOFOLD_HOME": str(home),
        "TWOFOLD_CACHE": str(demo_model().parent.parent),
        "LANG": "C.UTF-8",
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.window_driver", part],
        env=environment, capture_output=True, text=True, timeout=400,
    )  # fmt: skip
    assert done.returncode == ends_with, done.stderr[-3000:]
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert "problem" not in seen, f"{seen['problem']}: {seen}\n{done.stderr[-2000:]}"
    print(part, {name: seen.get(name) for name in ("seconds to the screen", "memory")})
    for _ in range(100):
        if not psutil.pid_exists(seen["engine"]):
            return seen
        time.sleep(0.1)
    raise AssertionError("the engine outlives its window")


def test_first_run_demo_question_odp_question_a_dead_engine_and_another_start(
    tmp_path: Path,
) -> None:
    demo_prefiller(demo_model())
    with display() as screen:
        first = play("first_run", tmp_path, screen)
        again = play("again", tmp_path, screen)

    assert first["colours"] > 20, "the display shows a page"
    assert first["prefiller"].endswith(".prefiller.gguf")
    assert "Streams" in first["sentence"]
    shown = first["messages"]
    assert [item["role"] for item in shown] == ["user", "assistant"] * 3
    assert shown[1]["path"] in ("resident", "decoder") and shown[3]["path"] == "odp"
    assert all(item["content"] for item in shown)
    died = first["after the death"][-1]
    assert died["failure"] == "window.engine_died"
    assert died["content"], "what was written before the death is kept"
    assert again["messages"] == shown
    assert again["model"] == str(demo_model())


def test_a_window_that_is_killed_loses_at_most_a_second_of_an_answer(tmp_path: Path) -> None:
    with display() as screen:
        killed = play("killed", tmp_path, screen, ends_with=-signal.SIGKILL)
        again = play("again", tmp_path, screen)
    question, answer = again["messages"]
    assert question["content"] == "Tell me a very long story about a ship."
    assert answer["status"] in ("interrupted", "done")
    a_second_before = [length for at, length in killed["said"] if at <= -1.0]
    assert len(answer["content"]) >= a_second_before[-1] > 0
