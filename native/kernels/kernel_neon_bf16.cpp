// BF16 products on Arm (BFMMLA): 8 rows by 8 columns, as 4 by 4 accumulators of 2 x 2.
#include "kernels/bf16.h"
#include "kernels/kernel.h"
#include "kernels/softmax.h"

#include <arm_neon.h>

#include <cstring>

namespace twofold {
namespace {

constexpr std::int64_t strip = 8;
constexpr std::int64_t panel = 8;
constexpr std::int64_t depth = 4;

std::uint16_t bf16_bits(float value) {
    value = round_to_bf16(value);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return static_cast<std::uint16_t>(bits >> 16);
}

// Strips and panels are [K / 4][8 rows][4].
void pack_row(const float* values, std::int64_t k, std::uint16_t* out) {
    for (std::int64_t first = 0; first < k; first += depth) {
        for (std::int64_t i = 0; i < depth; ++i)
            out[first * strip + i] = values && first + i < k ? bf16_bits(values[first + i]) : 0;
    }
}

void pack_rows(const float* const* rows, std::int64_t count, std::int64_t k, void* packed) {
    for (std::int64_t row = 0; row < strip; ++row)
        pack_row(row < count ? rows[row] : nullptr, k, static_cast<std::uint16_t*>(packed) + row * depth);
}

void pack_weights(const float* weights, std::int64_t stride, std::int64_t k, void* packed) {
    for (std::int64_t row = 0; row < panel; ++row)
        pack_row(weights + row * stride, k, static_cast<std::uint16_t*>(packed) + row * depth);
}

void pack_columns(const float* weights, std::int64_t stride, std::int64_t k, void* packed) {
    auto* out = static_cast<std::uint16_t*>(packed);
    for (std::int64_t i = 0; i < k; ++i) {
        for (std::int64_t row = 0; row < panel; ++row)
            out[i / depth * depth * panel + row * depth + i % depth] = bf16_bits(weights[i * stride + row]);
    }
}

void multiply(const void* packed_rows, const void* packed, std::int64_t k, std::int64_t /*used*/,
              const float* initial, float* out, std::int64_t out_stride) {
    const auto* a = static_cast<const bfloat16_t*>(packed_rows);
    const auto* b = static_cast<const bfloat16_t*>(packed);
    float32x4_t sums[4][4]; // rows 2i, 2i + 1 by columns 2j, 2j + 1
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
            const std::int64_t at = 2 * i * panel + 2 * j;
            sums[i][j] = initial ? vcombine_f32(vld1_f32(initial + at), vld1_f32(initial + at + panel))
                                 : vdupq_n_f32(0);
        }
    }
    for (std::int64_t first = 0; first < k; first += depth) {
        bfloat16x8_t rows[4];
        bfloat16x8_t columns[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
            rows[i] = vld1q_bf16(a + 8 * i);
            columns[i] = vld1q_bf16(b + 8 * i);
        }
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 4
            for (int j = 0; j < 4; ++j)
                sums[i][j] = vbfmmlaq_f32(sums[i][j], rows[i], columns[j]);
        }
        a += strip * depth;
        b += panel * depth;
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
            float* to = out + 2 * i * out_stride + 2 * j;
            vst1_f32(to, vget_low_f32(sums[i][j]));
            vst1_f32(to + out_stride, vget_high_f32(sums[i][j]));
        }
    }
}

double spin(std::int64_t rounds) {
    float32x4_t sums[16] = {};
    const bfloat16x8_t values = vreinterpretq_bf16_u16(vdupq_n_u16(0x3F80));
    for (std::int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 16
        for (float32x4_t& sum : sums) {
            sum = vbfmmlaq_f32(sum, values, values);
            __asm__ volatile("" : "+w"(sum)); // as far as the compiler knows, each result is used
        }
    }
    return static_cast<double>(rounds) * 16 * 32;
}

} // namespace

const Kernel kernel_neon_bf16 = {
    .name = "neonbf16",
    .strip = strip,
    .panel = panel,
    .depth = depth,
    .element_bytes = 2,
    .block_rows = 256,
    .begin = nullptr,
    .end = nullptr,
    .pack_rows = pack_rows,
    .pack_weights = pack_weights,
    .pack_nvfp4 = nullptr,
    .pack_columns = pack_columns,
    .multiply = multiply,
    .scale_scores = scale_scores,
    .exponentiate = exponentiate,
    .attention = &floats_neon,
    .spin = spin,
};

} // namespace twofold
