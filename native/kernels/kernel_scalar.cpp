// The plainest kernel: what the others are compared with, and what runs where none of them can.
#include "kernels/bf16.h"
#include "kernels/kernel.h"
#include "kernels/softmax.h"

namespace twofold {
namespace {

constexpr std::int64_t strip = 4;
constexpr std::int64_t panel = 8;

template <bool rounded> float taken(float value) {
    return rounded ? round_to_bf16(value) : value;
}

// A strip is [K][4 rows], a panel [K][8 rows].
template <bool rounded>
void pack_rows(const float* const* rows, std::int64_t count, std::int64_t k, void* packed) {
    auto* out = static_cast<float*>(packed);
    for (std::int64_t i = 0; i < k; ++i) {
        for (std::int64_t row = 0; row < strip; ++row)
            out[i * strip + row] = row < count ? taken<rounded>(rows[row][i]) : 0.0F;
    }
}

template <bool rounded>
void pack_weights(const float* weights, std::int64_t stride, std::int64_t k, void* packed) {
    auto* out = static_cast<float*>(packed);
    for (std::int64_t i = 0; i < k; ++i) {
        for (std::int64_t row = 0; row < panel; ++row)
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

void multiply(const void* packed_rows, const void* packed, std::int64_t k, std::int64_t used,
              const float* initial, float* out, std::int64_t out_stride) {
    const auto* a = static_cast<const float*>(packed_rows);
    const auto* b = static_cast<const float*>(packed);
    for (std::int64_t row = 0; row < used; ++row) {
        float sums[panel] = {};
        if (initial) {
            for (std::int64_t column = 0; column < panel; ++column)
                sums[column] = initial[row * panel + column];
        }
        for (std::int64_t i = 0; i < k; ++i) {
            for (std::int64_t column = 0; column < panel; ++column)
                sums[column] += a[i * strip + row] * b[i * panel + column];
        }
        for (std::int64_t column = 0; column < panel; ++column)
            out[row * out_stride + column] = sums[column];
    }
}

double spin(std::int64_t rounds) {
    float sums[8] = {};
    for (std::int64_t i = 0; i < rounds; ++i) {
        for (float& sum : sums) {
            sum += sum * 0.5F;
            __asm__ volatile("" : "+m"(sum)); // as far as the compiler knows, each result is used
        }
    }
    return static_cast<double>(rounds) * 8 * 2;
}

constexpr Kernel rounding = {
    .name = "scalar",
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
    .attention = &floats_scalar,
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

const Kernel kernel_scalar = rounding;
const Kernel floats_scalar = without_rounding();

} // namespace twofold
