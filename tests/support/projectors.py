"""Vision projectors that say how wide they are, and hold next to nothing."""

from __future__ import annotations

from tests.support.gguf_bytes import GgufBytes, f32_tensor, text, u32


def projector(width: int) -> bytes:
    keys = [
        ("general.architecture", text("clip")),
        ("general.type", text("mmproj")),
        ("clip.vision.projection_dim", u32(width)),
    ]
    return GgufBytes(keys, [f32_tensor("v.patch_embd.weight", (8, 4))]).encode()  # type: ignore[arg-type]
