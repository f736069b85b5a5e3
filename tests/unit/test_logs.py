"""The log is JSON lines in rotating files; it never stops the engine."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import logs
from engine.settings import LogSettings


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A log folder of its own, and the root logger as it was."""
    monkeypatch.setenv("TWOFOLD_HOME", str(tmp_path))
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield tmp_path
    for handler in root.handlers[:]:
        if handler not in before:
            root.removeHandler(handler)
            handler.close()
    root.setLevel(level)


def test_a_line_has_time_level_event_and_facts() -> None:
    logs.set_up(LogSettings())
    logging.getLogger("engine.test").info("model.loaded", extra={"model": "m 한", "seconds": 1.5})
    line = json.loads(logs.tail(1)[0])
    assert line["time"].endswith("Z")
    assert (line["level"], line["from"], line["event"]) == ("info", "engine.test", "model.loaded")
    assert (line["model"], line["seconds"]) == ("m 한", 1.5)


def test_an_exception_is_one_line() -> None:
    logs.set_up(LogSettings())
    try:
        raise ValueError("two\nlines")
    except ValueError:
        logging.getLogger("engine.test").exception("it.broke")
    [text] = logs.tail(1)
    assert "ValueError: two\nlines" in json.loads(text)["exception"]


def test_files_rotate(home: Path) -> None:
    logs.set_up(LogSettings(file_mb=1, files=2))
    for _ in range(35):
        logging.getLogger("engine.test").info("x" * 100_000)
    files = sorted(file.name for file in (home / "logs").iterdir())
    assert files == ["engine.log", "engine.log.1", "engine.log.2"]
    assert all(file.stat().st_size <= 1_000_000 for file in (home / "logs").iterdir())


def test_the_level_is_obeyed() -> None:
    logs.set_up(LogSettings(level="warning"))
    logging.getLogger("engine.test").info("quiet")
    assert logs.tail(10) == []


def test_a_folder_that_cannot_be_written_costs_the_log_only(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "logs").write_text("a file where the folder should be")
    logs.set_up(LogSettings())
    assert "Nothing is logged" in capsys.readouterr().err
    logging.getLogger("engine.test").info("goes on")
    assert logs.tail(10) == []
