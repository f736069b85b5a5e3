// Packing that the three AVX-512 kernels share; include it in files compiled for AVX-512 only.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace twofold {
namespace {

constexpr int lanes = 16;
constexpr std::int64_t nvfp4_weights = 64;
constexpr std::size_t nvfp4_bytes = 36;

// In place: element j of vector i becomes element i of vector j.
[[gnu::always_inline]] inline void transpose(__m512i (&v)[lanes]) {
    __m512i t[lanes];
    for (int i = 0; i < 8; ++i) {
        t[2 * i] = _mm512_unpacklo_epi32(v[2 * i], v[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_epi32(v[2 * i], v[2 * i + 1]);
    }
    for (int i = 0; i < 4; ++i) {
        v[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
        v[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
        v[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
        v[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
    }
    for (int i = 0; i < 4; ++i) {
        t[i] = _mm512_shuffle_i32x4(v[i], v[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_i32x4(v[i], v[i + 4], 0xDD);
        t[i + 8] = _mm512_shuffle_i32x4(v[i + 8], v[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_i32x4(v[i + 8], v[i + 12], 0xDD);
    }
    for (int i = 0; i < 4; ++i) {
        v[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
        v[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xDD);
        v[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
        v[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xDD);
    }
}

// Decodes NVFP4 for 16 weight rows at once, one a lane: no transposition of decoded weights is needed.
// Calls store(k / 2, values at k, values at k + 1) for each even k below `count`.
template <typename Store>
[[gnu::always_inline]] inline void decode_nvfp4(const std::uint8_t* rows, std::size_t stride,
                                                std::int64_t row_count, std::int64_t count,
                                                const Store& store) {
    // E2M1 values; the factor undoes the exponent bias of scales read as half floats.
    const __m512 values =
        _mm512_mul_ps(_mm512_setr_ps(0, .5F, 1, 1.5F, 2, 3, 4, 6, -0.F, -.5F, -1, -1.5F, -2, -3, -4, -6),
                      _mm512_set1_ps(256));
    const std::uint8_t* row[lanes];
    for (int i = 0; i < lanes; ++i)
        row[i] = rows + static_cast<std::size_t>(i < row_count ? i : row_count - 1) * stride;

    for (std::int64_t k = 0; k < count; k += nvfp4_weights) {
        alignas(64) std::uint32_t scale_bytes[lanes];
        __m512i word[8]; // word[d]: the eight codes in dword d of each row
        for (int half = 0; half < 2; ++half) {
            __m512i part[4];
            for (int j = 0; j < 4; ++j) {
                const auto load = [&](int i) {
                    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(
                        row[i] + 4 + static_cast<std::ptrdiff_t>(half) * 16));
                };
                __m512i four = _mm512_castsi128_si512(load(j));
                four = _mm512_inserti32x4(four, load(j + 4), 1);
                four = _mm512_inserti32x4(four, load(j + 8), 2);
                part[j] = _mm512_inserti32x4(four, load(j + 12), 3);
            }
            const __m512i a = _mm512_unpacklo_epi32(part[0], part[1]);
            const __m512i b = _mm512_unpackhi_epi32(part[0], part[1]);
            const __m512i c = _mm512_unpacklo_epi32(part[2], part[3]);
            const __m512i d = _mm512_unpackhi_epi32(part[2], part[3]);
            word[4 * half] = _mm512_unpacklo_epi64(a, c);
            word[4 * half + 1] = _mm512_unpackhi_epi64(a, c);
            word[4 * half + 2] = _mm512_unpacklo_epi64(b, d);
            word[4 * half + 3] = _mm512_unpackhi_epi64(b, d);
        }
        for (int i = 0; i < lanes; ++i) {
            std::memcpy(&scale_bytes[i], row[i], 4);
            row[i] += nvfp4_bytes;
        }
        const __m512i all_scales = _mm512_load_si512(scale_bytes);
        for (int sub = 0; sub < 4; ++sub) {
            const __m512i code = _mm512_and_si512(_mm512_srl_epi32(all_scales, _mm_cvtsi32_si128(8 * sub)),
                                                  _mm512_set1_epi32(0xFF));
            const __mmask16 finite = _mm512_cmpneq_epi32_mask(code, _mm512_set1_epi32(0x7F));
            // E4M3's exponent and mantissa, placed where a half float has them.
            const __m256i halves = _mm512_maskz_cvtepi32_epi16(
                finite, _mm512_slli_epi32(_mm512_and_si512(code, _mm512_set1_epi32(0x7F)), 7));
            const __m512 scale = _mm512_cvtph_ps(halves);
            const auto decoded = [&](const __m512i& codes) { // of each lane's lowest four bits
                return _mm512_mul_ps(_mm512_permutexvar_ps(codes, values), scale);
            };
            // Elements 0..7 are the low halves of the sub-block's eight bytes, 8..15 the high ones.
            for (int high = 0; high < 2; ++high) {
                for (int d = 0; d < 2; ++d) {
                    const __m512i w = word[2 * sub + d];
                    const std::int64_t pair = k / 2 + sub * 8 + high * 4 + d * 2;
                    const int first = 4 * high;
                    store(pair, decoded(_mm512_srli_epi32(w, first)),
                          decoded(_mm512_srli_epi32(w, first + 8)));
                    store(pair + 1, decoded(_mm512_srli_epi32(w, first + 16)),
                          decoded(_mm512_srli_epi32(w, first + 24)));
                }
            }
        }
    }
}

} // namespace
} // namespace twofold
