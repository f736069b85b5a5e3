"""The ggml tensor types of the pinned library, with the size of their blocks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


@dataclass(frozen=True, slots=True)
class BlockSize:
    """`elements` consecutive values of a row are stored in `nbytes` bytes."""

    elements: int
    nbytes: int


class GgmlType(IntEnum):
    """Values as in ggml.h. Types that ggml removed, and those it uses only for activations
    (Q8_1, Q8_K), are left out: no tensor of a file may have them."""

    F32 = 0
    F16 = 1
    Q4_0 = 2
    Q4_1 = 3
    Q5_0 = 6
    Q5_1 = 7
    Q8_0 = 8
    Q2_K = 10
    Q3_K = 11
    Q4_K = 12
    Q5_K = 13
    Q6_K = 14
    IQ2_XXS = 16
    IQ2_XS = 17
    IQ3_XXS = 18
    IQ1_S = 19
    IQ4_NL = 20
    IQ3_S = 21
    IQ2_S = 22
    IQ4_XS = 23
    I8 = 24
    I16 = 25
    I32 = 26
    I64 = 27
    F64 = 28
    IQ1_M = 29
    BF16 = 30
    TQ1_0 = 34
    TQ2_0 = 35
    MXFP4 = 39
    NVFP4 = 40
    Q1_0 = 41
    Q2_0 = 42

    @property
    def block(self) -> BlockSize:
        return BLOCK_SIZES[self]


BLOCK_SIZES: dict[GgmlType, BlockSize] = {
    GgmlType.F32: BlockSize(1, 4),
    GgmlType.F16: BlockSize(1, 2),
    GgmlType.Q4_0: BlockSize(32, 18),
    GgmlType.Q4_1: BlockSize(32, 20),
    GgmlType.Q5_0: BlockSize(32, 22),
    GgmlType.Q5_1: BlockSize(32, 24),
    GgmlType.Q8_0: BlockSize(32, 34),
    GgmlType.Q2_K: BlockSize(256, 84),
    GgmlType.Q3_K: BlockSize(256, 110),
    GgmlType.Q4_K: BlockSize(256, 144),
    GgmlType.Q5_K: BlockSize(256, 176),
    GgmlType.Q6_K: BlockSize(256, 210),
    GgmlType.IQ2_XXS: BlockSize(256, 66),
    GgmlType.IQ2_XS: BlockSize(256, 74),
    GgmlType.IQ3_XXS: BlockSize(256, 98),
    GgmlType.IQ1_S: BlockSize(256, 50),
    GgmlType.IQ4_NL: BlockSize(32, 18),
    GgmlType.IQ3_S: BlockSize(256, 110),
    GgmlType.IQ2_S: BlockSize(256, 82),
    GgmlType.IQ4_XS: BlockSize(256, 136),
    GgmlType.I8: BlockSize(1, 1),
    GgmlType.I16: BlockSize(1, 2),
    GgmlType.I32: BlockSize(1, 4),
    GgmlType.I64: BlockSize(1, 8),
    GgmlType.F64: BlockSize(1, 8),
    GgmlType.IQ1_M: BlockSize(256, 56),
    GgmlType.BF16: BlockSize(1, 2),
    GgmlType.TQ1_0: BlockSize(256, 54),
    GgmlType.TQ2_0: BlockSize(256, 66),
    GgmlType.MXFP4: BlockSize(32, 17),
    GgmlType.NVFP4: BlockSize(64, 36),
    GgmlType.Q1_0: BlockSize(128, 18),
    GgmlType.Q2_0: BlockSize(64, 18),
}


class ValueType(IntEnum):
    """Types of metadata values, as in gguf.h."""

    UINT8 = 0
    INT8 = 1
    UINT16 = 2
    INT16 = 3
    UINT32 = 4
    INT32 = 5
    FLOAT32 = 6
    BOOL = 7
    STRING = 8
    ARRAY = 9
    UINT64 = 10
    INT64 = 11
    FLOAT64 = 12
