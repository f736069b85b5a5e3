"""The encoder's bytes mean what gguf-py's own NVFP4 decoding says they mean."""

from __future__ import annotations

import numpy as np
import pytest
from gguf import GGMLQuantizationType
from gguf.quants import dequantize, quantize
from numpy.typing import NDArray

from engine.errors import NativeError
from engine.gguf.types import GgmlType
from engine.native import native

F32 = int(GgmlType.F32)
LEVELS = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
MIDPOINTS = (LEVELS[1:] + LEVELS[:-1]) / 2
# All E4M3 numbers that are not negative, in order: subnormals, then normals up to 448.
E4M3 = np.array(
    [m * 2.0**-9 for m in range(8)]
    + [(1 + m / 8) * 2.0 ** (e - 7) for e in range(1, 16) for m in range(8)][:-1],
    np.float32,
)


def encode(weights: NDArray[np.float32], scale: float) -> NDArray[np.uint8]:
    blocks = np.zeros(weights.size // 64 * 36, np.uint8)
    native().encode_source(weights.view(np.uint8).ravel(), F32, weights.size, scale, blocks)
    return blocks


def decode(blocks: NDArray[np.uint8], scale: float) -> NDArray[np.float32]:
    return dequantize(blocks, GGMLQuantizationType.NVFP4).ravel() * np.float32(scale)


def expected(weights: NDArray[np.float32], scale: float) -> NDArray[np.float32]:
    """The format's formulas, written with tables: nearest E4M3, then nearest level, times g."""
    parts = weights.reshape(-1, 16)
    g = np.float32(scale)
    wanted = np.minimum(np.abs(parts).max(axis=1) / np.float32(6) / g, np.float32(448))
    above = np.searchsorted(E4M3, wanted).clip(1, len(E4M3) - 1)
    low, high = E4M3[above - 1], E4M3[above]
    middle = (low + high) / 2
    up = (wanted > middle) | ((wanted == middle) & (above % 2 == 0))
    block_scale = np.where(up, high, low)[:, None]
    step = block_scale * g
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = np.where(step > 0, parts / step, np.float32(0))
    level = LEVELS[np.searchsorted(MIDPOINTS, np.abs(scaled), side="left")]
    return (np.copysign(level, scaled) * block_scale * g).astype(np.float32).ravel()


@pytest.mark.parametrize("size", [1e-30, 1e-6, 0.02, 1.0, 1e20])
def test_decoding_gives_the_formulas_values_to_the_bit(size: float) -> None:
    random = np.random.default_rng(3)
    weights = (random.standard_normal(64 * 200) * size).astype(np.float32)
    weights[:64] = 0
    weights[64:80] *= np.float32(1e-4)  # far below the rest: subnormal and zero block scales
    weights[80:96] *= np.float32(1e-6)
    scale = native().tensor_scale(float(np.abs(weights).max()))

    decoded = decode(encode(weights, scale), scale)

    np.testing.assert_array_equal(np.abs(decoded), np.abs(expected(weights, scale)))
    np.testing.assert_array_equal(decoded, expected(weights, scale))


def test_encoding_is_stable_on_what_it_decoded() -> None:
    weights = np.random.default_rng(4).standard_normal(64 * 64).astype(np.float32)
    scale = native().tensor_scale(float(np.abs(weights).max()))
    blocks = encode(weights, scale)
    again = encode(decode(blocks, scale), scale)
    np.testing.assert_array_equal(decode(again, scale), decode(blocks, scale))


@pytest.mark.parametrize(
    "name", ["F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q6_K", "IQ4_XS"]
)
def test_any_source_type_is_encoded_as_its_own_values_are(name: str) -> None:
    kind = GGMLQuantizationType[name]
    random = np.random.default_rng(5)
    values = random.standard_normal((8, 4608)).astype(np.float32)  # more than one piece
    try:
        raw = quantize(values, kind)
    except NotImplementedError:  # gguf-py only decodes it: make finite blocks by hand
        raw = made_up_blocks(kind, values.size)
    weights = np.ascontiguousarray(dequantize(raw, kind), np.float32)
    count = weights.size
    data = np.ascontiguousarray(raw).view(np.uint8).ravel()

    magnitude = native().source_magnitude(data, int(kind), count)
    assert magnitude == np.abs(weights).max()
    scale = native().tensor_scale(magnitude)
    blocks = np.zeros(count // 64 * 36, np.uint8)
    native().encode_source(data, int(kind), count, scale, blocks)

    np.testing.assert_array_equal(blocks, encode(weights, scale))


def made_up_blocks(kind: GGMLQuantizationType, count: int) -> NDArray[np.uint8]:
    block = GgmlType(int(kind)).block
    random = np.random.default_rng(6)
    raw = random.integers(0, 256, (count // block.elements, block.nbytes), np.uint8)
    half = np.frombuffer(np.float16(0.01).tobytes(), np.uint8)
    # the half-precision scales: last in Q6_K, first (two of them in Q4_K) in the others
    if kind is GGMLQuantizationType.Q6_K:
        raw[:, -2:] = half
    else:
        raw[:, :2] = half
    if kind is GGMLQuantizationType.Q4_K:
        raw[:, 2:4] = half
    return raw.ravel()


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_weights_that_are_not_finite_are_refused(value: float) -> None:
    weights = np.ones(64 * 100, np.float32)
    weights[4321] = value
    with pytest.raises(NativeError) as refused:
        native().source_magnitude(weights.view(np.uint8), F32, weights.size)
    assert refused.value.code == "weights.not_finite"


@pytest.mark.parametrize(
    ("type_", "nbytes", "count", "code"),
    [
        (F32, 256, 63, "weights.wrong_size"),
        (F32, 255, 64, "weights.wrong_size"),
        (int(GgmlType.Q4_K), 36, 64, "weights.wrong_size"),
        (int(GgmlType.I32), 256, 64, "weights.unknown_type"),
        (4, 256, 64, "weights.unknown_type"),  # a type that ggml removed
        (-1, 256, 64, "weights.unknown_type"),
        (1000, 256, 64, "weights.unknown_type"),
    ],
)
def test_sources_that_cannot_be_are_refused(type_: int, nbytes: int, count: int, code: str) -> None:
    with pytest.raises(NativeError) as refused:
        native().source_magnitude(np.zeros(nbytes, np.uint8), type_, count)
    assert refused.value.code == code


@pytest.mark.parametrize("scale", [0.0, -1.0, np.inf, np.nan])
def test_scales_that_cannot_be_are_refused(scale: float) -> None:
    with pytest.raises(NativeError) as refused:
        encode(np.ones(64, np.float32), scale)
    assert refused.value.code == "weights.bad_scale"


def test_an_output_of_another_size_is_refused() -> None:
    data = np.zeros(256, np.uint8)
    with pytest.raises(NativeError) as refused:
        native().encode_source(data, F32, 64, 1.0, np.zeros(35, np.uint8))
    assert refused.value.code == "weights.wrong_size"
