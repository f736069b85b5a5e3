"""Fast conversions of weights to FP32 write the very values that the library's write."""

from __future__ import annotations

import numpy as np
import pytest

from engine.bench.matmul import random_rows
from engine.gguf.types import GgmlType
from engine.native import native

_COUNT = 64 * 512


@pytest.mark.parametrize("name", ["IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "Q2_0"])
def test_equal_to_the_bit(name: str) -> None:
    type_ = GgmlType[name]
    quantised = random_rows(type_, 64, 512)
    # Any bytes are a valid block behind its scale, a half float at its start.
    block = type_.block.nbytes
    wild = np.random.default_rng(2).integers(0, 256, (quantised.size // block, block), np.uint8)
    wild[:, :2] = quantised.reshape(-1, block)[:, :2]
    for weights in (quantised, wild.reshape(-1)):
        fast = native().decode_weights(int(type_), weights, _COUNT, True)
        library = native().decode_weights(int(type_), weights, _COUNT, False)
        np.testing.assert_array_equal(fast.view(np.uint32), library.view(np.uint32))
