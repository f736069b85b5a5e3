"""Headers of models of published shapes, as the GGUF reader would give them; no file is needed."""

from __future__ import annotations

import math
from pathlib import Path
from types import MappingProxyType

from engine.bench.shapes import ModelShape, Role, hyperparameters, tensors
from engine.gguf.reader import GgufFile, TensorInfo
from engine.gguf.splits import GgufModel
from engine.gguf.types import GgmlType
from engine.prefiller.output import MetadataValue

_TYPES = {
    Role.HEAD: GgmlType.Q6_K,
    Role.EMBEDDING: GgmlType.Q4_K,
    Role.GATE: GgmlType.Q8_0,
}


def published_model(
    shape: ModelShape,
    linear_type: GgmlType,
    name: str = "model",
    extra: dict[str, MetadataValue] | None = None,
) -> GgufModel:
    """`shape` with linear weights of `linear_type`."""
    path = Path(f"{name}-{linear_type.name}.gguf")
    metadata: dict[str, MetadataValue] = {
        "general.architecture": shape.arch,
        "general.name": name,
        **hyperparameters(shape),
        **(extra or {}),
    }
    found: list[TensorInfo] = []
    offset = 0
    for tensor, size, role in tensors(shape):
        type_ = linear_type if role is Role.LINEAR else _TYPES.get(role, GgmlType.F32)
        nbytes = math.prod(size) // type_.block.elements * type_.block.nbytes
        found.append(TensorInfo(tensor, size, type_, offset, nbytes, offset, path))
        offset += nbytes
    file = GgufFile(
        path=path,
        version=3,
        metadata=MappingProxyType({key: _value(value) for key, value in metadata.items()}),
        value_types=MappingProxyType({}),
        tensors=tuple(found),
        data_offset=0,
        alignment=32,
        file_size=offset,
    )
    return GgufModel((file,))


def _value(value: MetadataValue) -> str | int | float:
    # Lists matter to the library alone.
    return value if isinstance(value, str | int | float) else str(value)
