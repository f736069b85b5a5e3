"""The trained target and drafters, made once for a state of their sources and kept in the cache."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from filelock import FileLock

from engine import paths

_ROOT = Path(__file__).parents[3]
_SOURCES = ("checkpoints", "files", "networks", "shapes", "text_source", "training")


def trained_drafts() -> Path:
    """A folder with `target.gguf`, `target-mtp.gguf`, `eagle3.gguf`, `dflash.gguf`, `dspark.gguf`,
    checkpoints `medusa` and `eagle1`, `tau.json` and `expected.npz`; not to be changed.

    Trains for two to four minutes of processor time when there is none yet; others wait for it.
    """
    digest = hashlib.sha256(version("jax").encode())
    for source in _SOURCES:
        digest.update(Path(__file__).with_name(f"{source}.py").read_bytes())
    kept = paths.cache_folder() / "trained-drafts"
    kept.mkdir(parents=True, exist_ok=True)
    folder = kept / digest.hexdigest()[:20]
    with FileLock(kept / "lock"):
        if not folder.exists():
            made = Path(tempfile.mkdtemp(dir=kept))
            try:
                _train(made)
                made.rename(folder)
            finally:
                shutil.rmtree(made, ignore_errors=True)
    return folder


def _train(folder: Path) -> None:
    command = [sys.executable, "-m", "tests.support.drafts.training", str(folder)]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the drafters could not be trained:\n{done.stderr[-2000:]}")
