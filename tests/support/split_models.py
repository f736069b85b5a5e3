"""Writes a model in parts, as the library's own tool splits them."""

from __future__ import annotations

from pathlib import Path

from engine.gguf.types import ValueType
from tests.support.gguf_bytes import GgufBytes, Value


def write_split(folder: Path, model: GgufBytes, count: int = 3) -> list[Path]:
    """The parts' paths: the first has the metadata, tensors are dealt in turn."""
    paths: list[Path] = []
    for no in range(count):
        keys = [
            *(model.metadata if no == 0 else []),
            ("split.no", Value(ValueType.UINT16, no)),
            ("split.count", Value(ValueType.UINT16, count)),
            ("split.tensors.count", Value(ValueType.INT32, len(model.tensors))),
        ]
        path = folder / f"model-{no + 1:05d}-of-{count:05d}.gguf"
        path.write_bytes(GgufBytes(keys, model.tensors[no::count]).encode())
        paths.append(path)
    return paths
