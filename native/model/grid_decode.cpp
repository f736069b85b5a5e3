// Eight weights at a time: table entry to FP32, times the block's scale, with the sign bits flipped in.
#include "model/grid_decode.h"

#include "kernels/cpu_features.h"

#include <ggml.h>

#if defined(__x86_64__)

#define GGML_COMMON_DECL_CPP
#define GGML_COMMON_IMPL_CPP
#include <ggml-common.h>

#include "model/avx2_values.h"

namespace twofold {
namespace {

constexpr std::int64_t super_block = QK_K;

// Eight magnitudes, one a byte, times `scale`; bit i of `signs` set: the i-th is negative.
TWOFOLD_AVX2 inline void put(float* to, std::uint64_t magnitudes, std::uint32_t signs, float scale) {
    const __m256i bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const __m256 values =
        _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(magnitudes))));
    const __m256i set =
        _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(static_cast<int>(signs)), bits), bits);
    const __m256i flips = _mm256_slli_epi32(set, 31);
    const __m256 scaled = _mm256_mul_ps(values, _mm256_set1_ps(scale));
    _mm256_storeu_ps(to, _mm256_xor_ps(scaled, _mm256_castsi256_ps(flips)));
}

// Eight from two tables' entries of four.
TWOFOLD_AVX2 inline void put(float* to, std::uint32_t first, std::uint32_t second, std::uint32_t signs,
                             float scale) {
    put(to, first | (std::uint64_t{second} << 32), signs, scale);
}

// Seven sign bits are stored; the eighth makes their number even.
inline std::uint32_t even_signs(std::uint32_t seven) {
    seven &= 127;
    return seven | (static_cast<std::uint32_t>(__builtin_popcount(seven) & 1) << 7);
}

TWOFOLD_AVX2 void decode_iq2_xxs(const void* blocks, float* to, std::int64_t count) {
    const auto* block = static_cast<const block_iq2_xxs*>(blocks);
    for (std::int64_t i = 0; i < count; i += super_block, ++block) {
        const float d = from_half(block->d);
        for (int part = 0; part < 8; ++part) {
            const auto* indices = reinterpret_cast<const std::uint8_t*>(block->qs + 4 * part);
            const auto packed = load<std::uint32_t>(block->qs + 4 * part + 2);
            const float scale = d * (0.5F + static_cast<float>(packed >> 28)) * 0.25F;
            for (int j = 0; j < 4; ++j, to += 8)
                put(to, iq2xxs_grid[indices[j]], even_signs(packed >> (7 * j)), scale);
        }
    }
}

TWOFOLD_AVX2 void decode_iq2_xs(const void* blocks, float* to, std::int64_t count) {
    const auto* block = static_cast<const block_iq2_xs*>(blocks);
    for (std::int64_t i = 0; i < count; i += super_block, ++block) {
        const float d = from_half(block->d);
        for (int part = 0; part < 8; ++part) {
            for (int j = 0; j < 4; ++j, to += 8) {
                const int nibble = (block->scales[part] >> (j < 2 ? 0 : 4)) & 15;
                const std::uint32_t packed = block->qs[4 * part + j];
                put(to, iq2xs_grid[packed & 511], even_signs(packed >> 9),
                    d * (0.5F + static_cast<float>(nibble)) * 0.25F);
            }
        }
    }
}

TWOFOLD_AVX2 void decode_iq2_s(const void* blocks, float* to, std::int64_t count) {
    const auto* block = static_cast<const block_iq2_s*>(blocks);
    for (std::int64_t i = 0; i < count; i += super_block, ++block) {
        const float d = from_half(block->d);
        const std::uint8_t* signs = block->qs + super_block / 8;
        for (int part = 0; part < 8; ++part) {
            for (int j = 0; j < 4; ++j, to += 8) {
                const int nibble = (block->scales[part] >> (j < 2 ? 0 : 4)) & 15;
                const int high = (block->qh[part] << (8 - 2 * j)) & 0x300;
                put(to, iq2s_grid[block->qs[4 * part + j] | high], signs[4 * part + j],
                    d * (0.5F + static_cast<float>(nibble)) * 0.25F);
            }
        }
    }
}

TWOFOLD_AVX2 void decode_iq3_xxs(const void* blocks, float* to, std::int64_t count) {
    const auto* block = static_cast<const block_iq3_xxs*>(blocks);
    for (std::int64_t i = 0; i < count; i += super_block, ++block) {
        const float d = from_half(block->d);
        const std::uint8_t* indices = block->qs;
        for (int part = 0; part < 8; ++part) {
            const auto packed = load<std::uint32_t>(block->qs + super_block / 4 + 4 * part);
            const float scale = d * (0.5F + static_cast<float>(packed >> 28)) * 0.5F;
            for (int j = 0; j < 4; ++j, to += 8, indices += 2)
                put(to, iq3xxs_grid[indices[0]], iq3xxs_grid[indices[1]], even_signs(packed >> (7 * j)),
                    scale);
        }
    }
}

TWOFOLD_AVX2 void decode_iq3_s(const void* blocks, float* to, std::int64_t count) {
    const auto* block = static_cast<const block_iq3_s*>(blocks);
    for (std::int64_t i = 0; i < count; i += super_block, ++block) {
        const float d = from_half(block->d);
        const std::uint8_t* indices = block->qs;
        for (int part = 0; part < 8; ++part) {
            const int nibble = (block->scales[part / 2] >> (part % 2 == 0 ? 0 : 4)) & 15;
            const float scale = d * static_cast<float>(1 + 2 * nibble);
            for (int j = 0; j < 4; ++j, to += 8, indices += 2) {
                const int first = (block->qh[part] << (8 - 2 * j)) & 256;
                const int second = (block->qh[part] << (7 - 2 * j)) & 256;
                put(to, iq3s_grid[indices[0] | first], iq3s_grid[indices[1] | second],
                    block->signs[4 * part + j], scale);
            }
        }
    }
}

// Eight of -1, 0 and 1, shifted up or down by an eighth, times the scale.
TWOFOLD_AVX2 inline void put_ternary(float* to, std::uint64_t entry, bool down, float scale) {
    const __m256 shift = _mm256_set1_ps(down ? -IQ1S_DELTA : IQ1S_DELTA);
    const __m256 values = floats_of(_mm_cvtsi64_si128(static_cast<long long>(entry)));
    _mm256_storeu_ps(to, _mm256_mul_ps(_mm256_set1_ps(scale), _mm256_add_ps(values, shift)));
}

TWOFOLD_AVX2 void decode_iq1_s(const void* blocks, float* to, std::int64_t count) {
    const auto* block = static_cast<const block_iq1_s*>(blocks);
    for (std::int64_t i = 0; i < count; i += super_block, ++block) {
        const float d = from_half(block->d);
        for (int part = 0; part < 8; ++part) {
            const int packed = block->qh[part];
            const float scale = d * static_cast<float>(2 * ((packed >> 12) & 7) + 1);
            for (int j = 0; j < 4; ++j, to += 8) {
                const int high = ((packed >> (3 * j)) & 7) << 8;
                put_ternary(to, iq1s_grid[block->qs[4 * part + j] | high], (packed & 0x8000) != 0, scale);
            }
        }
    }
}

TWOFOLD_AVX2 void decode_iq1_m(const void* blocks, float* to, std::int64_t count) {
    const auto* block = static_cast<const block_iq1_m*>(blocks);
    for (std::int64_t i = 0; i < count; i += super_block, ++block) {
        // The block's scale is spread over the top four bits of the four words of scales.
        std::uint32_t bits = 0;
        for (int word = 0; word < 4; ++word)
            bits |= static_cast<std::uint32_t>(load<std::uint16_t>(block->scales + 2 * word) >> 12)
                    << (4 * word);
        const float d = from_half(static_cast<std::uint16_t>(bits));
        for (int part = 0; part < 8; ++part) {
            const int scales = load<std::uint16_t>(block->scales + part / 2 * 2) >> (6 * (part % 2));
            for (int j = 0; j < 4; ++j, to += 8) {
                const int nibble = block->qh[2 * part + j / 2] >> (4 * (j % 2));
                const float scale = d * static_cast<float>(2 * ((scales >> (3 * (j / 2))) & 7) + 1);
                put_ternary(to, iq1s_grid[block->qs[4 * part + j] | ((nibble & 7) << 8)], (nibble & 8) != 0,
                            scale);
            }
        }
    }
}

} // namespace

FloatConverter grid_converter(int type) {
    if (!cpu_features().avx2)
        return nullptr;
    switch (type) {
    case GGML_TYPE_IQ1_S:
        return decode_iq1_s;
    case GGML_TYPE_IQ1_M:
        return decode_iq1_m;
    case GGML_TYPE_IQ2_XXS:
        return decode_iq2_xxs;
    case GGML_TYPE_IQ2_XS:
        return decode_iq2_xs;
    case GGML_TYPE_IQ2_S:
        return decode_iq2_s;
    case GGML_TYPE_IQ3_XXS:
        return decode_iq3_xxs;
    case GGML_TYPE_IQ3_S:
        return decode_iq3_s;
    default:
        return nullptr;
    }
}

} // namespace twofold

#else

namespace twofold {

FloatConverter grid_converter(int) {
    return nullptr;
}

} // namespace twofold

#endif
