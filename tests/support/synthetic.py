"""Made-up models small enough for tests: the published shapes with every width cut down."""

from __future__ import annotations

import dataclasses

from engine.bench.shapes import DeltaNet, ModelShape, model_shape

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
