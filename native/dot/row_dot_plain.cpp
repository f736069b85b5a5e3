// Dot products in plain words: NVFP4's where no other runs, and what the others are compared with.
#include "dot/prepared.h"
#include "dot/row_dot_kinds.h"
#include "kernels/activations_a4.h"
#include "kernels/nvfp4_decode.h"
#include "model/dequantize.h"

#define GGML_COMMON_DECL_CPP
#define GGML_COMMON_IMPL_CPP
#include <ggml-common.h>
#include <ggml.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace twofold {
namespace {

constexpr std::int64_t step = prepared_step;

std::size_t float_bytes(std::int64_t k) {
    return static_cast<std::size_t>(k) * sizeof(float);
}

void copy_values(const float* token, std::int64_t /*k*/, std::int64_t first, std::int64_t count,
                 void* prepared) {
    std::copy_n(token + first, count, static_cast<float*>(prepared) + first);
}

void round_to_four_bits(const float* token, std::int64_t k, std::int64_t first, std::int64_t count,
                        void* prepared) {
    const float scale = a4_token_scale(token, k);
    float* to = static_cast<float*>(prepared) + first;
    a4_round(token + first, count, scale, to);
    for (std::int64_t i = 0; i < count; ++i)
        to[i] *= scale;
}

// Sums of type `Sum`, in as many lanes as vectors like.
template <typename Sum>
void multiply_nvfp4(const std::uint8_t* rows, std::size_t stride, std::int64_t count, std::int64_t k,
                    const void* prepared, float* results) {
    constexpr int lanes = 16;
    const auto* token = static_cast<const float*>(prepared);
    for (std::int64_t row = 0; row < count; ++row) {
        const std::uint8_t* block = rows + static_cast<std::size_t>(row) * stride;
        Sum sums[lanes] = {};
        for (std::int64_t first = 0; first < k; first += QK_NVFP4, block += sizeof(block_nvfp4)) {
            float weights[QK_NVFP4];
            nvfp4_decode(block, weights, QK_NVFP4);
            for (int i = 0; i < QK_NVFP4; i += lanes) {
                for (int lane = 0; lane < lanes; ++lane)
                    sums[lane] += static_cast<Sum>(weights[i + lane]) * token[first + i + lane];
            }
        }
        Sum sum = 0;
        for (const Sum part : sums)
            sum += part;
        results[row] = static_cast<float>(sum);
    }
}

std::int64_t blocks_of(std::int64_t k) {
    return (k + step - 1) / step;
}

std::size_t prepared_bytes(std::int64_t k) {
    return static_cast<std::size_t>(blocks_of(k)) * sizeof(Bytes256);
}

void prepare_bytes(const float* token, std::int64_t /*k*/, std::int64_t first, std::int64_t count,
                   void* prepared) {
    auto* to = static_cast<Bytes256*>(prepared) + first / step;
    for (std::int64_t from = first; from < first + count; from += step, ++to) {
        const std::int64_t left = std::min(step, first + count - from);
        *to = {};
        for (std::int64_t group = 0; group < left; group += 32) {
            float largest = 0;
            for (std::int64_t i = group; i < group + 32; ++i)
                largest = std::max(largest, std::abs(token[from + i]));
            const float scale = largest / 127;
            const float inverse = scale > 0 ? 1 / scale : 0.0F;
            for (std::int64_t i = group; i < group + 32; ++i) {
                const auto value = static_cast<std::int8_t>(std::lrint(token[from + i] * inverse));
                to->part[i % 4][i / 4] = value;
                to->minus_sum[i / 16] -= value;
                to->scale[i / 16] = scale;
            }
        }
    }
}

template <int type>
void multiply_bytes(const std::uint8_t* rows, std::size_t stride, std::int64_t count, std::int64_t k,
                    const void* prepared, float* results) {
    const auto* blocks = static_cast<const Bytes256*>(prepared);
    std::vector<float> weights(static_cast<std::size_t>(k));
    for (std::int64_t row = 0; row < count; ++row) {
        float_converter(type)(rows + static_cast<std::size_t>(row) * stride, weights.data(), k);
        double sum = 0;
        for (std::int64_t i = 0; i < k; ++i) {
            const Bytes256& block = blocks[i / step];
            const std::int64_t at = i % step;
            const std::int8_t value = block.part[at % 4][at / 4];
            sum += static_cast<double>(weights[static_cast<std::size_t>(i)]) * block.scale[at / 16] * value;
        }
        results[row] = static_cast<float>(sum);
    }
}

GridCodes make_grid_codes() {
    GridCodes codes{};
    for (std::size_t entry = 0; entry < 256; ++entry) {
        for (int i = 0; i < 8; ++i) {
            const std::uint64_t value = (iq2xxs_grid[entry] >> (8 * i)) & 255; // 8, 25 or 43
            codes.iq2_xxs[entry] |= static_cast<std::uint16_t>((value / 17) << (2 * i));
        }
    }
    for (std::size_t entry = 0; entry < 2048; ++entry) {
        for (int i = 0; i < 8; ++i) {
            const auto value = static_cast<std::int8_t>((iq1s_grid[entry] >> (8 * i)) & 255); // -1, 0 or 1
            codes.iq1_s[entry] |= static_cast<std::uint16_t>((value + 1) << (2 * i));
        }
    }
    std::copy_n(ksigns_iq2xs, 128, codes.signs);
    return codes;
}

} // namespace

const GridCodes& grid_codes() {
    static const GridCodes codes = make_grid_codes();
    return codes;
}

const RowDot& exact_nvfp4_dot(bool four_bits) {
    static constexpr RowDot exact{float_bytes, copy_values, multiply_nvfp4<double>};
    static constexpr RowDot rounded{float_bytes, round_to_four_bits, multiply_nvfp4<double>};
    return four_bits ? rounded : exact;
}

const RowDot plain_nvfp4{float_bytes, copy_values, multiply_nvfp4<float>};
const RowDot plain_q2_0{prepared_bytes, prepare_bytes, multiply_bytes<GGML_TYPE_Q2_0>};
const RowDot plain_iq1_s{prepared_bytes, prepare_bytes, multiply_bytes<GGML_TYPE_IQ1_S>};
const RowDot plain_iq2_xxs{prepared_bytes, prepare_bytes, multiply_bytes<GGML_TYPE_IQ2_XXS>};

} // namespace twofold
