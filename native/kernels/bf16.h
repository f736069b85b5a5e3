// Rounding to BF16, one number at a time.
#pragma once

#include <cstdint>
#include <cstring>

namespace twofold {
namespace {

// The nearest BF16 value, ties to even, as FP32; NaN stays NaN.
inline float round_to_bf16(float value) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    bits = value != value ? 0x7FC00000U : (bits + 0x7FFFU + ((bits >> 16) & 1U)) & 0xFFFF0000U;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

} // namespace
} // namespace twofold
