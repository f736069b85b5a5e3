// FP32 products of BF16-rounded operands on NEON: 8 rows by 8 columns of accumulators.
#include "kernels/bf16.h"
#include "kernels/kernel.h"
#include "kernels/softmax.h"

#include <arm_neon.h>

namespace twofold {
namespace {

constexpr std::int64_t strip = 8;
constexpr std::int64_t panel = 8;

template <bool rounded> float taken(float value) {
    return rounded ? round_to_bf16(value) : value;
}

// A strip is [K][8 rows], a panel likewise.
template <bool rounded>
void pack_rows(const float* const* rows, std::int64_t count, std::int64_t k, void* packed) {
    auto* out = static_cast<float*>(packed);
    for (std::int64_t row = 0; row < strip; ++row) {
        for (std::int64_t i = 0; i < k; ++i)
            out[i * strip + row] = row < count ? taken<rounded>(rows[row][i]) : 0.0F;
    }
}

template <bool rounded>
void pack_weights(const float* weights, std::int64_t stride, std::int64_t k, void* packed) {
    auto* out = static_cast<float*>(packed);
    for (std::int64_t row = 0; row < panel; ++row) {
        for (std::int64_t i = 0; i < k; ++i)
            out[i * panel + row] = taken<rounded>(weights[row * stride + i]);
    }
}

template <bool rounded>
void pack_columns(const float* weights, std::int64_t stride, std::int64_t k, void* packed) {
    auto* out = static_cast<float*>(packed);
    for (std::int64_t i = 0; i < k; ++i) {
        for (std::int64_t row = 0; row < panel; ++row)
            out[i * panel + row] = taken<rounded>(weights[i * stride + row]);
    }
}

void multiply(const void* packed_rows, const void* packed, std::int64_t k, std::int64_t /*used*/,
              const float* initial, float* out, std::int64_t out_stride) {
    const auto* a = static_cast<const float*>(packed_rows);
    const auto* b = static_cast<const float*>(packed);
    float32x4_t sums[strip][2];
#pragma GCC unroll 8
    for (int row = 0; row < strip; ++row) {
        sums[row][0] = initial ? vld1q_f32(initial + row * panel) : vdupq_n_f32(0);
        sums[row][1] = initial ? vld1q_f32(initial + row * panel + 4) : vdupq_n_f32(0);
    }
    for (std::int64_t i = 0; i < k; ++i) {
        const float32x4_t left = vld1q_f32(b);
        const float32x4_t right = vld1q_f32(b + 4);
#pragma GCC unroll 8
        for (int row = 0; row < strip; ++row) {
            sums[row][0] = vfmaq_n_f32(sums[row][0], left, a[row]);
            sums[row][1] = vfmaq_n_f32(sums[row][1], right, a[row]);
        }
        a += strip;
        b += panel;
    }
#pragma GCC unroll 8
    for (int row = 0; row < strip; ++row) {
        vst1q_f32(out + row * out_stride, sums[row][0]);
        vst1q_f32(out + row * out_stride + 4, sums[row][1]);
    }
}

double spin(std::int64_t rounds) {
    float32x4_t sums[16] = {};
    const float32x4_t values = vdupq_n_f32(1);
    for (std::int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 16
        for (float32x4_t& sum : sums) {
            sum = vfmaq_f32(sum, values, values);
            __asm__ volatile("" : "+w"(sum)); // as far as the compiler knows, each result is used
        }
    }
    return static_cast<double>(rounds) * 16 * 8;
}

constexpr Kernel rounding = {
    .name = "neon",
    .strip = strip,
    .panel = panel,
    .depth = 1,
    .element_bytes = 4,
    .block_rows = 128,
    .begin = nullptr,
    .end = nullptr,
    .pack_rows = pack_rows<true>,
    .pack_weights = pack_weights<true>,
    .pack_nvfp4 = nullptr,
    .pack_columns = pack_columns<true>,
    .multiply = multiply,
    .scale_scores = scale_scores,
    .exponentiate = exponentiate,
    .attention = &floats_neon,
    .spin = spin,
};

constexpr Kernel without_rounding() {
    Kernel kernel = rounding;
    kernel.pack_rows = pack_rows<false>;
    kernel.pack_weights = pack_weights<false>;
    kernel.pack_columns = pack_columns<false>;
    kernel.pack_nvfp4 = nullptr;
    kernel.attention = nullptr;
    return kernel;
}

} // namespace

const Kernel kernel_neon = rounding;
const Kernel floats_neon = without_rounding();

} // namespace twofold
