"""A download survives its process's death at any moment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")


def kill(folder: Path, kills: int, seed: int) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.kill_downloads", str(folder), str(kills), str(seed)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_killed_20_times_nothing_is_lost_and_nothing_comes_twice(tmp_path: Path) -> None:
    report = kill(tmp_path, 20, seed=1)
    assert report["wrong"] == []
    assert report["kills"] == 20
    assert int(str(report["kills_while_fetching"])) > 5
    assert int(str(report["downloads"])) >= 1


@pytest.mark.slow
def test_killed_200_times_nothing_is_lost_and_nothing_comes_twice(tmp_path: Path) -> None:
    report = kill(tmp_path, 200, seed=2)
    assert report["wrong"] == []
    assert report["kills"] == 200
    assert int(str(report["kills_while_fetching"])) > 50
    assert int(str(report["downloads"])) >= 3
