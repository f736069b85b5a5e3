// The encoder in the plainest words, against which the fast one is tested.
#include "nvfp4/encode.h"

#include <algorithm>
#include <cmath>

namespace twofold {
namespace {

struct BlockScale {
    std::uint8_t code;
    float value;
};

BlockScale nearest_e4m3(float wanted) {
    const float limited = std::min(wanted, 448.0F);
    // Numbers from 2^e to 2^(e+1) lie 2^(e-3) apart; below 2^-6 they keep that range's distance.
    const int exponent = limited < 0x1p-6F ? -6 : std::ilogb(limited);
    const float distance = std::ldexp(1.0F, exponent - 3);
    // std::nearbyint takes the even neighbour of a tie, as E4M3 does: its last bit counts these distances.
    const float count = std::nearbyint(limited / distance);
    // Counts 0..7 are the subnormals, 8..16 continue with mantissa and carry.
    const int code = (exponent + 6) * 8 + static_cast<int>(count);
    return {static_cast<std::uint8_t>(code), count * distance};
}

std::uint8_t nearest_e2m1(float scaled) {
    constexpr float midpoints[] = {0.25F, 0.75F, 1.25F, 1.75F, 2.5F, 3.5F, 5.0F};
    std::uint8_t code = 0;
    for (const float midpoint : midpoints)
        if (std::fabs(scaled) > midpoint)
            ++code;
    if (code != 0 && scaled < 0.0F)
        code |= 8;
    return code;
}

} // namespace

void nvfp4_encode_reference(const float* weights, std::size_t count, float scale, std::uint8_t* blocks) {
    for (std::size_t block = 0; block < count / 64; ++block) {
        std::uint8_t* to = blocks + block * nvfp4_block_bytes;
        for (std::size_t sub = 0; sub < 4; ++sub) {
            const float* from = weights + block * 64 + sub * 16;
            float magnitude = 0.0F;
            for (std::size_t i = 0; i < 16; ++i)
                magnitude = std::max(magnitude, std::fabs(from[i]));

            const BlockScale block_scale = nearest_e4m3(magnitude / 6.0F / scale);
            const float step = block_scale.value * scale;
            std::uint8_t codes[16] = {};
            if (step > 0.0F)
                for (std::size_t i = 0; i < 16; ++i)
                    codes[i] = nearest_e2m1(from[i] / step);
            to[sub] = step > 0.0F ? block_scale.code : 0;
            for (std::size_t i = 0; i < 8; ++i)
                to[4 + sub * 8 + i] = static_cast<std::uint8_t>(codes[i] | codes[i + 8] << 4);
        }
    }
}

} // namespace twofold
