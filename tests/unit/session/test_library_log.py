"""What the library said last is not lost when it ends the process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.tiny_models import write_tiny

ABORTS = """
import ctypes, sys
from pathlib import Path
from engine.native import library_folder
from engine.runtime.loaded_model import LoadedModel
from engine.runtime.settings import LoadSettings
model = LoadedModel(Path(sys.argv[1]), settings=LoadSettings(context=64, threads=1))
ggml = ctypes.CDLL(str(next(library_folder().glob("libggml-base.so*"))))
ggml.ggml_abort(b"somewhere.c", 12, b"the %s broke", b"lamp")
"""


def test_an_abort_prints_the_last_lines_and_the_reason(tmp_path: Path) -> None:
    model = write_tiny(tmp_path / "tiny.gguf", "llama")
    done = subprocess.run(
        [sys.executable, "-c", ABORTS, str(model)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == -6, done.stderr
    *before, reason = done.stderr.strip().splitlines()
    assert reason == "somewhere.c:12: the lamp broke"
    assert any("llama" in line for line in before)
