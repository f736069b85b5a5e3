// Blocks of 64 weights: four E4M3 scales, then four times eight bytes of E2M1 codes.
#include "kernels/nvfp4_decode.h"

#include <cmath>

namespace twofold {
namespace {

constexpr std::array<float, 16> e2m1_values = {0,     0.5F,  1,  1.5F,  2,  3,  4,  6,
                                               -0.0F, -0.5F, -1, -1.5F, -2, -3, -4, -6};

std::array<float, 256> scale_values() {
    std::array<float, 256> values{};
    for (int code = 0; code < 256; ++code) {
        const int exponent = (code >> 3) & 15;
        const auto mantissa = static_cast<float>(code & 7);
        values[static_cast<std::size_t>(code)] =
            exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(1 + mantissa / 8, exponent - 7);
    }
    values[0x7F] = 0; // no number in E4M3
    return values;
}

} // namespace

const std::array<float, 256>& nvfp4_scales() {
    static const std::array<float, 256> scales = scale_values();
    return scales;
}

void nvfp4_decode(const void* blocks, float* weights, std::int64_t count) {
    const std::array<float, 256>& scales = nvfp4_scales();
    const auto* block = static_cast<const std::uint8_t*>(blocks);
    for (std::int64_t first = 0; first < count; first += 64) {
        for (int sub = 0; sub < 4; ++sub) {
            const float scale = scales[block[sub]];
            const std::uint8_t* codes = block + 4 + sub * 8;
            float* to = weights + first + static_cast<std::int64_t>(sub) * 16;
            for (int i = 0; i < 8; ++i) {
                to[i] = e2m1_values[codes[i] & 15] * scale;
                to[i + 8] = e2m1_values[codes[i] >> 4] * scale;
            }
        }
        block += 36;
    }
}

} // namespace twofold
