// The fast NVFP4 encoder writes what the reference writes, and both what the format says.
#include "nvfp4/encode.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

using namespace twofold;

namespace {

using Bytes = std::vector<std::uint8_t>;

// The bytes of every encoder that runs here, which must agree.
Bytes fast(const std::vector<float>& weights, float scale) {
    Bytes blocks(weights.size() / nvfp4_block_weights * nvfp4_block_bytes);
    nvfp4_encode(weights.data(), weights.size(), scale, blocks.data());
    for (const Nvfp4Encoder& encoder : nvfp4_encoders()) {
        CAPTURE(encoder.name);
        Bytes same(blocks.size());
        encoder.encode(weights.data(), weights.size(), scale, same.data());
        REQUIRE(same == blocks);
    }
    return blocks;
}

float magnitude(const std::vector<float>& values) {
    const float largest = max_magnitude(values.data(), values.size());
    for (const Nvfp4Encoder& encoder : nvfp4_encoders())
        REQUIRE(std::bit_cast<std::uint32_t>(encoder.max_magnitude(values.data(), values.size())) ==
                std::bit_cast<std::uint32_t>(largest));
    return largest;
}

Bytes reference(const std::vector<float>& weights, float scale) {
    Bytes blocks(weights.size() / nvfp4_block_weights * nvfp4_block_bytes);
    nvfp4_encode_reference(weights.data(), weights.size(), scale, blocks.data());
    return blocks;
}

int code_at(const Bytes& blocks, std::size_t index) {
    const std::size_t sub = index / 16;
    const std::uint8_t pair = blocks[4 + sub * 8 + index % 8];
    return index % 16 < 8 ? pair & 0xF : pair >> 4;
}

} // namespace

TEST_CASE("the fast encoder equals the reference on any finite bits") {
    std::mt19937 random(7);
    for (int round = 0; round < 400; ++round) {
        std::vector<float> weights(nvfp4_block_weights * 16);
        for (float& weight : weights)
            do
                weight = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
            while (!std::isfinite(weight));
        const float scale = nvfp4_tensor_scale(magnitude(weights));
        REQUIRE(fast(weights, scale) == reference(weights, scale));
    }
}

TEST_CASE("the fast encoder equals the reference on weights of all sizes") {
    std::mt19937 random(8);
    std::normal_distribution<float> normal;
    for (int exponent = -148; exponent <= 120; ++exponent) {
        std::vector<float> weights(nvfp4_block_weights * 8);
        for (float& weight : weights)
            weight = std::ldexp(normal(random), exponent);
        const float scale = nvfp4_tensor_scale(magnitude(weights));
        REQUIRE(std::isfinite(scale));
        REQUIRE(fast(weights, scale) == reference(weights, scale));
        // A scale shared with larger tensors sends block scales into subnormals and to zero.
        for (const float larger : {3.0F, 100.0F, 1000.0F, 1e6F})
            if (std::isfinite(scale * larger))
                REQUIRE(fast(weights, scale * larger) == reference(weights, scale * larger));
    }
}

TEST_CASE("every tie of elements goes to the lower magnitude") {
    // The sub-block's largest is 6 under scale 1, so the block scale is exactly 1.
    std::vector<float> weights(nvfp4_block_weights, 6.0F);
    const float midpoints[] = {0.25F, 0.75F, 1.25F, 1.75F, 2.5F, 3.5F, 5.0F};
    for (std::size_t i = 0; i < 7; ++i) {
        weights[i] = midpoints[i];
        weights[16 + i] = -midpoints[i];
        weights[32 + i] = std::nextafter(midpoints[i], 10.0F);
    }
    for (const Bytes& blocks : {fast(weights, 1.0F), reference(weights, 1.0F)}) {
        REQUIRE(blocks[0] == 0x38); // E4M3 for 1
        for (int i = 0; i < 7; ++i) {
            CHECK(code_at(blocks, static_cast<std::size_t>(i)) == i);
            CHECK(code_at(blocks, 16 + static_cast<std::size_t>(i)) == (i == 0 ? 0 : (i | 8)));
            CHECK(code_at(blocks, 32 + static_cast<std::size_t>(i)) == i + 1);
        }
    }
}

TEST_CASE("ties of block scales go to the even code, and 448 is the most") {
    const auto scale_code = [](float block_scale) {
        const std::vector<float> weights(nvfp4_block_weights, block_scale * 6.0F);
        const Bytes blocks = fast(weights, 1.0F);
        CHECK(blocks == reference(weights, 1.0F));
        return static_cast<int>(blocks[0]);
    };
    CHECK(scale_code(1.0625F) == 0x38);  // halfway between 1 and 1.125
    CHECK(scale_code(1.1875F) == 0x3A);  // halfway between 1.125 and 1.25
    CHECK(scale_code(0x1p-10F) == 0x00); // halfway between 0 and the smallest
    CHECK(scale_code(0x3p-10F) == 0x02); // halfway between subnormals 1 and 2
    CHECK(scale_code(0xFp-10F) == 0x08); // halfway between the largest subnormal and 2^-6
    CHECK(scale_code(448.0F) == 0x7E);
    CHECK(scale_code(5000.0F) == 0x7E);
}

TEST_CASE("zeros, and a block too small for the tensor's scale, become zeros without a sign") {
    std::vector<float> weights(nvfp4_block_weights, -0.0F);
    CHECK(fast(weights, nvfp4_tensor_scale(0.0F)) == Bytes(nvfp4_block_bytes, 0));
    weights.assign(nvfp4_block_weights, -1e-9F);
    CHECK(fast(weights, 1.0F) == Bytes(nvfp4_block_bytes, 0));
    CHECK(reference(weights, 1.0F) == Bytes(nvfp4_block_bytes, 0));
}

TEST_CASE("the largest weight of a tensor gets the largest code under the largest block scale") {
    std::vector<float> weights(nvfp4_block_weights, 0.01F);
    weights[5] = -0.37F;
    const Bytes blocks = fast(weights, nvfp4_tensor_scale(magnitude(weights)));
    CHECK(blocks[0] == 0x7E);
    CHECK(code_at(blocks, 5) == 15);
}

TEST_CASE("the magnitude covers signs, tails of any length and values that are not finite") {
    std::vector<float> values(133, 0.5F);
    CHECK(magnitude({}) == 0.0F);
    values[132] = -2.0F;
    CHECK(magnitude(values) == 2.0F);
    values[70] = -std::numeric_limits<float>::infinity();
    CHECK(std::isinf(magnitude(values)));
    values[3] = std::numeric_limits<float>::quiet_NaN();
    CHECK(std::isnan(magnitude(values)));
}
