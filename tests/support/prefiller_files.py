"""Rewrites a prefiller of ours into the other accepted layouts, and into models of its own."""

from __future__ import annotations

import struct
from itertools import groupby
from pathlib import Path

import gguf
import numpy as np

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


def write_prefillers_model(out: Path, decoder: Path, prefiller: Prefiller, *, exact: bool) -> Path:
    """The decoder with the prefiller's weights for its own: what reads as the prefiller does and
    answers with the same weights.

    `exact`: in NVFP4 with `.scale` tensors, for architectures whose graphs apply those; else in
    FP32, which rounds activations otherwise.
    """
    reader = gguf.GGUFReader(decoder)
    raw = decoder.read_bytes()
    tensors: list[Tensor] = []
    for found in reader.tensors:
        own = prefiller.by_name.get(found.name)
        shape = tuple(int(size) for size in found.shape)
        if own is None:
            data = raw[found.data_offset : found.data_offset + int(found.n_bytes)]
            tensors.append(Tensor(found.name, shape, GgmlType(int(found.tensor_type)), data))
        elif exact:
            tensors.append(weight(prefiller, own))
            scale = own.name.removesuffix("weight") + "scale"
            tensors.append(Tensor(scale, (1,), GgmlType.F32, f32_bytes(own.scale)))
        else:
            packed = np.frombuffer(tensor_bytes(prefiller, own), np.uint8)
            values = gguf.dequantize(packed, gguf.GGMLQuantizationType.NVFP4)
            scaled = values * np.float32(own.scale)
            tensors.append(Tensor(own.name, shape, GgmlType.F32, scaled.tobytes()))
    return write_with_tensors(out, decoder, tensors)


def write_with_tensors(out: Path, model: Path, tensors: list[Tensor]) -> Path:
    """The metadata of `model` with `tensors` instead of its own."""
    reader = gguf.GGUFReader(model)
    keys = model.read_bytes()[24 : reader.tensors[0].field.offset]  # after magic, version, counts
    body = GgufBytes([], tensors).encode()
    head_end = body.index(b"GGUF") + 24
    # The keys go between the counts and the tensors; the data must then be aligned again.
    infos = sum(len(str(one.name).encode()) + 24 + 8 * len(one.shape) for one in tensors)
    data = body[(head_end + infos + 31) // 32 * 32 :]
    counts = struct.pack("<IQQ", 3, len(tensors), len(reader.fields) - 3)
    head = b"GGUF" + counts + keys + body[head_end : head_end + infos]
    out.write_bytes(head + bytes(-len(head) % 32) + data)
    return out


def f32_bytes(value: float) -> bytes:
    return f32(value).encode()[4:]
