"""The same model with every weight in FP32, where the library rounds nothing."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

from engine.gguf.types import GgmlType
from engine.native import native
from tests.support.gguf_bytes import Tensor
from tests.support.prefiller_files import write_with_tensors


def write_dequantised(out: Path, model: Path) -> Path:
    raw = model.read_bytes()
    tensors: list[Tensor] = []
    for found in gguf.GGUFReader(model).tensors:
        data = raw[found.data_offset : found.data_offset + int(found.n_bytes)]
        type_ = int(found.tensor_type)
        if type_ != GgmlType.F32:
            packed = np.frombuffer(data, np.uint8)
            data = native().decode_weights(type_, packed, int(found.n_elements), False).tobytes()
        shape = tuple(int(size) for size in found.shape)
        tensors.append(Tensor(found.name, shape, GgmlType.F32, data))
    return write_with_tensors(out, model, tensors)
