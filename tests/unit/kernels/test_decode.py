"""Fast conversions of weights to FP32 write the very values that the library's write."""

from __future__ import annotations

import numpy as np
import pytest

from engine.bench.matmul import random_rows
from engine.gguf.types import GgmlType
from engine.native import native

_COUNT = 64 * 512


_FAST = (
    *("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS"),
    *("Q2_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q6_K", "MXFP4", "NVFP4"),
)


@pytest.mark.parametrize("name", _FAST)
def test_equal_to_the_bit(name: str) -> None:
    type_ = GgmlType[name]
    quantised = random_rows(type_, 64, 512)
    # Any bytes are valid blocks, but for scales that are no numbers.
    wild = np.random.default_rng(2).integers(0, 256, quantised.size, np.uint8)
    for weights in (quantised, wild):
        fast = native().decode_weights(int(type_), weights, _COUNT, True)
        library = native().decode_weights(int(type_), weights, _COUNT, False)
        numbers = ~np.isnan(library)
        assert numbers.sum() > _COUNT / 2
        np.testing.assert_array_equal(numbers, ~np.isnan(fast))
        np.testing.assert_array_equal(
            fast[numbers].view(np.uint32), library[numbers].view(np.uint32)
        )
