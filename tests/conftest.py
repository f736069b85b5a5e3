"""What every test runs with: folders of its own, and the built cache."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest

from engine import paths

_OWNED = "TWOFOLD_TEST_HOME"


def pytest_configure(config: pytest.Config) -> None:
    """Set before any test module loads, and handed on to every process that a test starts."""
    # Started in the background, a shell has Ctrl-C ignored here and in all that tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.setdefault("TWOFOLD_CACHE", str(paths.cache_folder()))
    if _OWNED not in os.environ:
        os.environ[_OWNED] = os.environ["TWOFOLD_HOME"] = tempfile.mkdtemp(prefix="twofold-")
        config.add_cleanup(lambda: shutil.rmtree(Path(os.environ.pop(_OWNED)), ignore_errors=True))
