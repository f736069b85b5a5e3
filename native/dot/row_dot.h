// Rows of weights times one token, for decoding: there the weights pass by once, so each instruction counts.
//
// NVFP4 meets activations of 16 bits under a scale for each 16 of them: finer than BF16 or half floats. Q2_0,
// IQ1_S and IQ2_XXS meet 8-bit ones under a scale for each 32, which is no coarser than the library's own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace twofold {

struct Kernel;

struct RowDot {
    // Bytes that a token of `k` values takes once prepared.
    std::size_t (*prepared_bytes)(std::int64_t k);
    // Prepares values `first` to `first + count` of a token of `k`; `first` is a multiple of prepared_step.
    void (*prepare)(const float* token, std::int64_t k, std::int64_t first, std::int64_t count,
                    void* prepared);
    // results[i] = the token times the i-th of `count` rows, `stride` bytes apart.
    void (*multiply)(const std::uint8_t* rows, std::size_t stride, std::int64_t count, std::int64_t k,
                     const void* prepared, float* results);
};

inline constexpr std::int64_t prepared_step = 256;

// The fastest for weights of a ggml type on a processor that can run `kernel`; null where there is none.
const RowDot* row_dot(int type, const Kernel& kernel);

// What activations are in products with NVFP4 that measure the effect of their rounding: slow and in double
// precision. `four_bits`: rounded as activations_a4.h says; else not at all.
const RowDot& exact_nvfp4_dot(bool four_bits);

// The largest error of the kernel's dot products against plain ones, as kernel_error() has it.
double row_dot_error(const Kernel& kernel);

} // namespace twofold
