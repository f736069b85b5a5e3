// Branch-free loops over 16 values, for the compiler to vectorise.
#include "kernels/activations_a4.h"

#include "kernels/nvfp4_decode.h"

#include <algorithm>
#include <cmath>

namespace twofold {
namespace {

constexpr std::int64_t block = 16;
constexpr int largest_code = 0x7E; // 448; 0x7F is no number

// The nearest whole number, ties to even, for magnitudes far below 2^22.
inline float rounded(float value) {
    constexpr float shift = 0x1.8p23F;
    return (value + shift) - shift;
}

// The code of the nearest UE4M3 number, ties to even, of a number from 0 to 448.
int nearest_scale(float value) {
    const int exponent = value < 0x1p-6F ? -6 : std::ilogb(value);
    // Codes count steps of 2^(exponent - 3); a carry into the next exponent continues the count.
    const int steps = static_cast<int>(rounded(std::ldexp(value, 3 - exponent)));
    return std::min((exponent + 6) * 8 + steps, largest_code);
}

// Rounds |values| / scale to E2M1, ties to the even code; returns the squared error of that times scale.
float round_block(const float* sizes, float scale, float* found) {
    const float inverse = scale > 0 ? 1 / scale : 0.0F;
    float error = 0;
    for (std::int64_t i = 0; i < block; ++i) {
        const float size = std::min(sizes[i] * inverse, 6.0F);
        const float step = size < 2 ? 0.5F : size < 4 ? 1.0F : 2.0F;
        const float counts = size < 2 ? 2.0F : size < 4 ? 1.0F : 0.5F;
        found[i] = rounded(size * counts) * step * scale;
    }
    for (std::int64_t i = 0; i < block; ++i)
        error += (sizes[i] - found[i]) * (sizes[i] - found[i]);
    return error;
}

} // namespace

float a4_token_scale(const float* token, std::int64_t k) {
    float largest = 0;
    float nothing = 0; // becomes NaN if any value is not finite
    for (std::int64_t i = 0; i < k; ++i) {
        largest = std::max(largest, std::fabs(token[i]));
        nothing += token[i] * 0.0F;
    }
    return largest / (6.0F * 448.0F) + nothing;
}

void a4_round(const float* token, std::int64_t count, float token_scale, float* values) {
    const std::array<float, 256>& scales = nvfp4_scales();
    if (!std::isfinite(token_scale) || !std::isfinite(1 / token_scale)) {
        std::fill_n(values, count, 0.0F);
        return;
    }
    const float inverse = 1 / token_scale;
    for (std::int64_t first = 0; first < count; first += block) {
        float sizes[block];
        float largest = 0;
        for (std::int64_t i = 0; i < block; ++i) {
            sizes[i] = std::fabs(token[first + i]) * inverse;
            largest = std::max(largest, sizes[i]);
        }
        float found[2][block];
        const int nearest = nearest_scale(std::min(largest / 6, 448.0F));
        float least = round_block(sizes, scales[static_cast<std::size_t>(nearest)], found[0]);
        int best = 0;
        for (const int offset : {-1, 1, -2, 2}) {
            const int code = nearest + offset;
            if (code < 0 || code > largest_code)
                continue;
            const float error =
                round_block(sizes, scales[static_cast<std::size_t>(code)], found[best == 0 ? 1 : 0]);
            if (error < least) {
                least = error;
                best = best == 0 ? 1 : 0;
            }
        }
        for (std::int64_t i = 0; i < block; ++i)
            values[first + i] = std::copysign(found[best][i], token[first + i]);
    }
}

} // namespace twofold
