"""Rewrites a prefiller of ours into the other accepted layouts, and into wrong ones."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from engine.gguf.types import GgmlType
from engine.prefiller.formats import SCALE_KEY, Prefiller, PrefillerTensor
from tests.support.gguf_bytes import GgufBytes, Tensor, Value, f32, text


def tensor_bytes(prefiller: Prefiller, tensor: PrefillerTensor) -> bytes:
    with prefiller.files[tensor.file_index].open("rb") as file:
        file.seek(tensor.offset)
        return file.read(tensor.nbytes)


def weight(prefiller: Prefiller, tensor: PrefillerTensor) -> Tensor:
    return Tensor(tensor.name, tensor.shape, GgmlType.NVFP4, tensor_bytes(prefiller, tensor))


def published_parts(prefiller: Prefiller) -> list[GgufBytes]:
    """One part a block, scales in keys, nothing said of the decoder."""
    parts: list[GgufBytes] = []
    for _, block in groupby(prefiller.tensors, key=lambda tensor: tensor.block):
        tensors = list(block)
        keys: list[tuple[str | bytes, Value]] = [
            ("general.architecture", text(prefiller.architecture or ""))
        ]
        keys += [(SCALE_KEY + tensor.name, f32(tensor.scale)) for tensor in tensors]
        parts.append(GgufBytes(keys, [weight(prefiller, tensor) for tensor in tensors]))
    return parts


def write_published(folder: Path, prefiller: Prefiller) -> Path:
    """The folder, named for the decoder's quantisation as the published ones are."""
    folder.mkdir(parents=True)
    parts = published_parts(prefiller)
    for number, part in enumerate(parts, start=1):
        name = f"Model-NVFP4-prefiller-{number:05d}-of-{len(parts):05d}.gguf"
        (folder / name).write_bytes(part.encode())
    return folder


def upstream(prefiller: Prefiller) -> GgufBytes:
    """A whole NVFP4 model: weights with `.scale` tensors beside them, and other tensors."""
    tensors = [
        Tensor("token_embd.weight", (64, 2), GgmlType.F32, bytes(512)),
        Tensor("blk.0.attn_norm.weight", (64,), GgmlType.F32, bytes(256)),
    ]
    for tensor in prefiller.tensors:
        base = tensor.name.removesuffix(".weight")
        tensors.append(weight(prefiller, tensor))
        tensors.append(Tensor(base + ".scale", (1,), GgmlType.F32, f32_bytes(tensor.scale)))
        tensors.append(Tensor(base + ".input_scale", (1,), GgmlType.F32, f32_bytes(1.0)))
    keys: list[tuple[str | bytes, Value]] = [
        ("general.architecture", text(prefiller.architecture or ""))
    ]
    return GgufBytes(keys, tensors)


def f32_bytes(value: float) -> bytes:
    return f32(value).encode()[4:]
