"""Headers of models of published shapes: as the GGUF reader gives them, or as sparse files."""

from __future__ import annotations

import math
from pathlib import Path
from types import MappingProxyType

from engine.bench.shapes import ModelShape, Role, hyperparameters, model_shape, tensors
from engine.bench.synth import synthetic_metadata
from engine.gguf.reader import GgufFile, TensorInfo
from engine.gguf.splits import GgufModel
from engine.gguf.types import GgmlType
from engine.prefiller.output import MetadataValue, PlannedTensor, header, padding

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


def write_sparse(path: Path, arch: str, size: str, type_: str) -> Path:
    """A whole header, and a hole of the right length for the weights: all that planning reads."""
    shape = model_shape(arch, size)
    model = published_model(shape, GgmlType[type_], path.stem)
    # The made-up models' metadata has the tokenizer that the library asks for.
    planned = [PlannedTensor(tensor.name, tensor.shape, tensor.type) for tensor in model.tensors]
    start = header(synthetic_metadata(shape, f"{arch} {size} {type_}"), planned)
    with path.open("wb") as file:
        file.write(start)
        file.truncate(len(start) + sum(one.nbytes + padding(one.nbytes) for one in planned))
    return path
