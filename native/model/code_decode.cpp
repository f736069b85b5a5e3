// Sixteen weights at a time: codes unpacked to bytes, looked up or shifted to their values, times a scale.
#include "model/code_decode.h"

#include "kernels/cpu_features.h"
#include "kernels/nvfp4_decode.h"

#include <ggml.h>

#if defined(__x86_64__)

#define GGML_COMMON_DECL_CPP
#define GGML_COMMON_IMPL_CPP
#include <ggml-common.h>

#include "model/avx2_values.h"

#include <array>
#include <bit>

namespace twofold {
namespace {

// What four-bit codes stand for in the types that have a table.
alignas(16) constexpr std::array<std::int8_t, 16> iq4_values = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                                1,    13,   25,  38,  53,  69,  89,  113};
// Twice E2M1's values.
alignas(16) constexpr std::array<std::int8_t, 16> fp4_values = {0, 1,  2,  3,  4,  6,  8,  12,
                                                                0, -1, -2, -3, -4, -6, -8, -12};

TWOFOLD_AVX2 inline __m128i load16(const void* from) {
    return _mm_loadu_si128(static_cast<const __m128i*>(from));
}

TWOFOLD_AVX2 inline __m128i table(const std::array<std::int8_t, 16>& values) {
    return _mm_load_si128(reinterpret_cast<const __m128i*>(values.data()));
}

TWOFOLD_AVX2 inline __m128i low_nibbles(__m128i bytes) {
    return _mm_and_si128(bytes, _mm_set1_epi8(15));
}

TWOFOLD_AVX2 inline __m128i high_nibbles(__m128i bytes) {
    return low_nibbles(_mm_srli_epi16(bytes, 4));
}

// Bits 2 * pair and the next of each byte.
TWOFOLD_AVX2 inline __m128i two_bits(__m128i bytes, int pair) {
    return _mm_and_si128(_mm_srl_epi16(bytes, _mm_cvtsi32_si128(2 * pair)), _mm_set1_epi8(3));
}

// All ones in the bytes whose bit is set.
TWOFOLD_AVX2 inline __m128i spread(std::uint32_t sixteen_bits) {
    const __m128i which = _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    const __m128i bits = _mm_set1_epi64x(static_cast<long long>(0x8040201008040201ULL));
    const __m128i bytes = _mm_shuffle_epi8(_mm_cvtsi32_si128(static_cast<int>(sixteen_bits)), which);
    return _mm_cmpeq_epi8(_mm_and_si128(bytes, bits), bits);
}

TWOFOLD_AVX2 inline void put(float* to, __m128i values, float scale) {
    const __m256 factor = _mm256_set1_ps(scale);
    _mm256_storeu_ps(to, _mm256_mul_ps(floats_of(values), factor));
    _mm256_storeu_ps(to + 8, _mm256_mul_ps(floats_of(_mm_srli_si128(values, 8)), factor));
}

// Values times `scale`, plus `offset`: two roundings, as in the library.
TWOFOLD_AVX2 inline void put(float* to, __m128i values, float scale, float offset) {
    const __m256 factor = _mm256_set1_ps(scale);
    const __m256 shift = _mm256_set1_ps(offset);
    _mm256_storeu_ps(to, _mm256_add_ps(_mm256_mul_ps(floats_of(values), factor), shift));
    _mm256_storeu_ps(to + 8,
                     _mm256_add_ps(_mm256_mul_ps(floats_of(_mm_srli_si128(values, 8)), factor), shift));
}

TWOFOLD_AVX2 void decode_q4_0(const void* blocks, float* to, std::int64_t count) {
    const auto* block = static_cast<const block_q4_0*>(blocks);
    const __m128i middle = _mm_set1_epi8(8);
    for (std::int64_t i = 0; i < count; i += QK4_0, ++block, to += QK4_0) {
        const float scale = from_half(block->d);
        const __m128i codes = load16(block->qs);
        put(to, _mm_sub_epi8(low_nibbles(codes), middle), scale);
        put(to + 16, _mm_sub_epi8(high_nibbles(codes), middle), scale);
    }
}

TWOFOLD_AVX2 void decode_q4_1(const void* blocks, float* to, std::int64_t count) {
    const auto* block = static_cast<const block_q4_1*>(blocks);
    for (std::int64_t i = 0; i < count; i += QK4_1, ++block, to += QK4_1) {
        const float scale = from_half(block->data.data.d);
        const float least = from_half(block->data.data.m);
        const __m128i codes = load16(block->qs);
        put(to, low_nibbles(codes), scale, least);
        put(to + 16, high_nibbles(codes), scale, least);
    }
}

TWOFOLD_AVX2 void decode_q5_0(const void* blocks, float* to, std::int64_t count) {
    const auto* block = static_cast<const block_q5_0*>(blocks);
    const __m128i sixteen = _mm_set1_epi8(16);
    for (std::int64_t i = 0; i < count; i += QK5_0, ++block, to += QK5_0) {
        const float scale = from_half(block->d);
        const __m128i codes = load16(block->qs);
        const auto high = load<std::uint32_t>(block->qh);
        // The fifth bit and -16: either both or neither.
        put(to, _mm_sub_epi8(low_nibbles(codes), _mm_andnot_si128(spread(high), sixteen)), scale);
        put(to + 16, _mm_sub_epi8(high_nibbles(codes), _mm_andnot_si128(spread(high >> 16), sixteen)), scale);
    }
}

TWOFOLD_AVX2 void decode_q5_1(const void* blocks, float* to, std::int64_t count) {
    const auto* block = static_cast<const block_q5_1*>(blocks);
    const __m128i sixteen = _mm_set1_epi8(16);
    for (std::int64_t i = 0; i < count; i += QK5_1, ++block, to += QK5_1) {
        const float scale = from_half(block->data.data.d);
        const float least = from_half(block->data.data.m);
        const __m128i codes = load16(block->qs);
        const auto high = load<std::uint32_t>(block->qh);
        put(to, _mm_add_epi8(low_nibbles(codes), _mm_and_si128(spread(high), sixteen)), scale, least);
        put(to + 16, _mm_add_epi8(high_nibbles(codes), _mm_and_si128(spread(high >> 16), sixteen)), scale,
            least);
    }
}

TWOFOLD_AVX2 void decode_iq4_nl(const void* blocks, float* to, std::int64_t count) {
    const auto* block = static_cast<const block_iq4_nl*>(blocks);
    const __m128i values = table(iq4_values);
    for (std::int64_t i = 0; i < count; i += QK4_NL, ++block, to += QK4_NL) {
        const float scale = from_half(block->d);
        const __m128i codes = load16(block->qs);
        put(to, _mm_shuffle_epi8(values, low_nibbles(codes)), scale);
        put(to + 16, _mm_shuffle_epi8(values, high_nibbles(codes)), scale);
    }
}

TWOFOLD_AVX2 void decode_iq4_xs(const void* blocks, float* to, std::int64_t count) {
    const auto* block = static_cast<const block_iq4_xs*>(blocks);
    const __m128i values = table(iq4_values);
    for (std::int64_t i = 0; i < count; i += QK_K, ++block) {
        const float d = from_half(block->d);
        for (int part = 0; part < QK_K / 32; ++part, to += 32) {
            const int low = (block->scales_l[part / 2] >> (4 * (part % 2))) & 15;
            const int high = (block->scales_h >> (2 * part)) & 3;
            const float scale = d * static_cast<float>((low | (high << 4)) - 32);
            const __m128i codes = load16(block->qs + 16 * part);
            put(to, _mm_shuffle_epi8(values, low_nibbles(codes)), scale);
            put(to + 16, _mm_shuffle_epi8(values, high_nibbles(codes)), scale);
        }
    }
}

TWOFOLD_AVX2 void decode_mxfp4(const void* blocks, float* to, std::int64_t count) {
    const auto* block = static_cast<const block_mxfp4*>(blocks);
    const __m128i values = table(fp4_values);
    for (std::int64_t i = 0; i < count; i += QK_MXFP4, ++block, to += QK_MXFP4) {
        // Half of two to the power of e - 127, as the values are doubled; the smallest are denormal.
        const std::uint32_t e = block->e;
        const float scale = std::bit_cast<float>(e < 2 ? 0x00200000U << e : (e - 1) << 23);
        const __m128i codes = load16(block->qs);
        put(to, _mm_shuffle_epi8(values, low_nibbles(codes)), scale);
        put(to + 16, _mm_shuffle_epi8(values, high_nibbles(codes)), scale);
    }
}

TWOFOLD_AVX2 void decode_nvfp4(const void* blocks, float* to, std::int64_t count) {
    const std::array<float, 256>& scales = nvfp4_scales();
    const auto* block = static_cast<const block_nvfp4*>(blocks);
    const __m128i values = table(fp4_values);
    for (std::int64_t i = 0; i < count; i += QK_NVFP4, ++block) {
        for (int sub = 0; sub < QK_NVFP4 / QK_NVFP4_SUB; ++sub, to += QK_NVFP4_SUB) {
            const __m128i codes =
                _mm_loadl_epi64(reinterpret_cast<const __m128i*>(block->qs + sub * QK_NVFP4_SUB / 2));
            const __m128i both = _mm_unpacklo_epi64(low_nibbles(codes), high_nibbles(codes));
            put(to, _mm_shuffle_epi8(values, both), 0.5F * scales[block->d[sub]]); // doubled values
        }
    }
}

// -1, 0, 1 and 2 times the scale.
TWOFOLD_AVX2 void decode_q2_0(const void* blocks, float* to, std::int64_t count) {
    const auto* block = static_cast<const block_q2_0*>(blocks);
    const __m256i shifts = _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14);
    for (std::int64_t i = 0; i < count; i += QK2_0, ++block) {
        const __m256 d = _mm256_set1_ps(from_half(block->d));
        for (int part = 0; part < QK2_0 / 8; ++part, to += 8) {
            const int codes = load<std::uint16_t>(block->qs + 2 * part);
            const __m256i values =
                _mm256_and_si256(_mm256_srlv_epi32(_mm256_set1_epi32(codes), shifts), _mm256_set1_epi32(3));
            _mm256_storeu_ps(
                to, _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(values, _mm256_set1_epi32(1))), d));
        }
    }
}

TWOFOLD_AVX2 void decode_q2_k(const void* blocks, float* to, std::int64_t count) {
    const auto* block = static_cast<const block_q2_K*>(blocks);
    for (std::int64_t i = 0; i < count; i += QK_K, ++block) {
        const float d = from_half(block->data.data.d);
        const float least = from_half(block->data.data.dmin);
        const std::uint8_t* scale = block->scales;
        for (const std::uint8_t* codes = block->qs; codes < block->qs + QK_K / 4; codes += 32) {
            for (int pair = 0; pair < 4; ++pair) {
                for (int half = 0; half < 2; ++half, ++scale, to += 16) {
                    put(to, two_bits(load16(codes + 16 * half), pair), d * static_cast<float>(*scale & 15),
                        -(least * static_cast<float>(*scale >> 4)));
                }
            }
        }
    }
}

// Sixteen scales of six bits: four low bits each in eight bytes, then two high bits each in four.
inline std::array<std::uint8_t, 16> six_bit_scales(const std::uint8_t* packed) {
    std::array<std::uint8_t, 16> scales{};
    for (std::size_t i = 0; i < 16; ++i) {
        const int low = (packed[i % 8] >> (i < 8 ? 0 : 4)) & 15;
        const int high = (packed[8 + i % 4] >> (2 * (i / 4))) & 3;
        scales[i] = static_cast<std::uint8_t>(low | (high << 4));
    }
    return scales;
}

TWOFOLD_AVX2 void decode_q3_k(const void* blocks, float* to, std::int64_t count) {
    const auto* block = static_cast<const block_q3_K*>(blocks);
    const __m128i four = _mm_set1_epi8(4);
    for (std::int64_t i = 0; i < count; i += QK_K, ++block) {
        const float d = from_half(block->d);
        const auto scales = six_bit_scales(block->scales);
        for (int group = 0; group < QK_K / 16; ++group, to += 16) {
            const int half = group % 2, pair = group / 2 % 4, part = group / 8;
            const __m128i codes = two_bits(load16(block->qs + 32 * part + 16 * half), pair);
            const __m128i bit = _mm_set1_epi8(static_cast<char>(1 << (group / 2)));
            const __m128i high = _mm_and_si128(load16(block->hmask + 16 * half), bit);
            // The third bit and -4: either both or neither.
            const __m128i missing = _mm_and_si128(_mm_cmpeq_epi8(high, _mm_setzero_si128()), four);
            put(to, _mm_sub_epi8(codes, missing),
                d * static_cast<float>(scales[static_cast<std::size_t>(group)] - 32));
        }
    }
}

TWOFOLD_AVX2 void decode_q6_k(const void* blocks, float* to, std::int64_t count) {
    const auto* block = static_cast<const block_q6_K*>(blocks);
    const __m128i middle = _mm_set1_epi8(32);
    for (std::int64_t i = 0; i < count; i += QK_K, ++block) {
        const float d = from_half(block->d);
        for (int group = 0; group < QK_K / 16; ++group, to += 16) {
            const int half = group % 2, pair = group / 2 % 4, part = group / 8;
            const __m128i low = load16(block->ql + 64 * part + 32 * (pair % 2) + 16 * half);
            const __m128i nibbles = pair < 2 ? low_nibbles(low) : high_nibbles(low);
            const __m128i high = two_bits(load16(block->qh + 32 * part + 16 * half), pair);
            const __m128i codes = _mm_or_si128(nibbles, _mm_slli_epi16(high, 4));
            put(to, _mm_sub_epi8(codes, middle), d * static_cast<float>(block->scales[group]));
        }
    }
}

} // namespace

FloatConverter code_converter(int type) {
    if (!cpu_features().avx2)
        return nullptr;
    switch (type) {
    case GGML_TYPE_Q4_0:
        return decode_q4_0;
    case GGML_TYPE_Q4_1:
        return decode_q4_1;
    case GGML_TYPE_Q5_0:
        return decode_q5_0;
    case GGML_TYPE_Q5_1:
        return decode_q5_1;
    case GGML_TYPE_IQ4_NL:
        return decode_iq4_nl;
    case GGML_TYPE_IQ4_XS:
        return decode_iq4_xs;
    case GGML_TYPE_MXFP4:
        return decode_mxfp4;
    case GGML_TYPE_NVFP4:
        return decode_nvfp4;
    case GGML_TYPE_Q2_0:
        return decode_q2_0;
    case GGML_TYPE_Q2_K:
        return decode_q2_k;
    case GGML_TYPE_Q3_K:
        return decode_q3_k;
    case GGML_TYPE_Q6_K:
        return decode_q6_k;
    default:
        return nullptr;
    }
}

} // namespace twofold

#else

namespace twofold {

FloatConverter code_converter(int) {
    return nullptr;
}

} // namespace twofold

#endif
