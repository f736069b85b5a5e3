"""Where Twofold keeps its files: data, cache, settings and logs.

`TWOFOLD_HOME` moves all four below one folder; `TWOFOLD_CACHE` moves the cache alone.
"""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

DEMO_MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"

_system = platformdirs.PlatformDirs("twofold", appauthor=False)


def data_folder() -> Path:
    """Chats, downloaded models and prefillers: what must never be lost."""
    return _home("data") or _system.user_data_path


def cache_folder() -> Path:
    """The built library, its sources and the demo model: can be deleted, costs time to remake."""
    moved = os.environ.get("TWOFOLD_CACHE")
    return Path(moved) if moved else _home("cache") or _system.user_cache_path


def config_folder() -> Path:
    """Settings."""
    return _home("config") or _system.user_config_path


def log_folder() -> Path:
    """Logs."""
    return _home("logs") or _system.user_log_path


def demo_model() -> Path:
    """Where the set-up puts the demo model."""
    return cache_folder() / "models" / DEMO_MODEL


def demo_prefiller() -> Path:
    """Where the demo model's prefiller lies once it was built."""
    model = demo_model()
    return model.with_name(f"{model.stem}.prefiller.gguf")


def _home(name: str) -> Path | None:
    home = os.environ.get("TWOFOLD_HOME")
    return Path(home) / name if home else None
