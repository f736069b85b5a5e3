"""Opens a model's files for loading: validated, and tried in a child process where that is due."""

from __future__ import annotations

import importlib.metadata
import os
from pathlib import Path

from pydantic import TypeAdapter

from engine import paths
from engine.gguf.identity import decoder_hash
from engine.gguf.rehearsal import rehearse
from engine.gguf.splits import GgufModel
from engine.gguf.validate import is_checked, validated_model

# Enough for any collection of models; the oldest results go first.
_KEPT = 500
_KEYS = TypeAdapter(list[str])


def trusted_model(path: Path) -> GgufModel:
    """The model at `path`, which the library may load in this process.

    Architectures that are checked to the last tensor are trusted at once. Any other model is
    tried in a child process, once for each file and library version. Raises a GgufError.
    """
    model = validated_model(path)
    if is_checked(model):
        return model
    key = f"{importlib.metadata.version('llama-cpp-python')}:{decoder_hash(model)}"
    survivors = _read()
    if key not in survivors:
        rehearse(model)
        _write([*survivors, key][-_KEPT:])
    return model


def _store() -> Path:
    return paths.cache_folder() / "rehearsed.json"


def _read() -> list[str]:
    """A lost or damaged list only costs another try."""
    try:
        return _KEYS.validate_json(_store().read_bytes())
    except (OSError, ValueError):
        return []


def _write(keys: list[str]) -> None:
    store = _store()
    store.parent.mkdir(parents=True, exist_ok=True)
    partial = store.with_name(f".{store.name}.{os.getpid()}")
    partial.write_bytes(_KEYS.dump_json(keys))
    partial.replace(store)
