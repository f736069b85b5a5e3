"""Made-up models small enough for tests: the published shapes with every width cut down."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from engine.bench.shapes import DeltaNet, ModelShape, Role, model_shape, tensors
from engine.bench.synth import synthetic_metadata
from engine.gguf.types import GgmlType
from engine.prefiller.output import PlannedTensor, header, padding

# Every weight of a prefiller fills whole 4096-byte pages, so that bytes can be counted exactly.
SMALL = {
    "qwen3": dataclasses.replace(
        model_shape("qwen3", "0.6b"),
        blocks=3,
        width=256,
        ffn=512,
        heads=4,
        kv_heads=4,
        head=64,
        rope=64,
        vocab=512,
    ),
    "qwen35": dataclasses.replace(
        model_shape("qwen35", "27b"),
        blocks=4,
        width=256,
        ffn=512,
        heads=4,
        kv_heads=4,
        head=64,
        rope=32,
        rope_sections=(6, 5, 5, 0),
        vocab=512,
        delta_net=DeltaNet(state=32, key_heads=4, value_heads=8),
    ),
}


def small_shape(arch: str, **changes: int) -> ModelShape:
    return dataclasses.replace(SMALL[arch], **changes)


def write_holes(path: Path, shape: ModelShape, type_: GgmlType = GgmlType.Q8_0) -> Path:
    """A model of a real one's size whose weights are a hole in the file: it reads as zeros, is
    written in no time and takes no room, and all work on it takes as long as on a real one."""
    planned = [
        PlannedTensor(name, size, type_ if role is Role.LINEAR else GgmlType.F32)
        for name, size, role in tensors(shape)
    ]
    start = header(synthetic_metadata(shape, "holes"), planned)
    with path.open("wb") as file:
        file.write(start)
        file.truncate(len(start) + sum(one.nbytes + padding(one.nbytes) for one in planned))
    return path
