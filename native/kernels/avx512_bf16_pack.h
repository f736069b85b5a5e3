// Panels of BF16 weights in pairs along K, for tiles and for AVX-512's BF16 products alike; include it in
// files compiled for AVX-512 BF16 only.
//
// A panel has 32 rows of weights: [K / 32][2 halves][16 pairs along K][16 rows][2].
#pragma once

#include "kernels/avx512_pack.h"

namespace twofold {
namespace {

constexpr std::int64_t pair_panel = 32;
constexpr std::int64_t pair_depth = 32;
constexpr std::size_t half_tile = 16 * 32; // values in 16 rows of weights by 32 in K

// 32 values rounded to BF16; those beyond `left` are zeros.
[[gnu::always_inline]] inline __m512i round_32(const float* values, std::int64_t left) {
    __m512 low;
    __m512 high;
    if (left >= 32) {
        low = _mm512_loadu_ps(values);
        high = _mm512_loadu_ps(values + 16);
    } else {
        const auto mask = static_cast<std::uint32_t>((std::uint64_t{1} << left) - 1);
        low = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), values);
        high = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> 16), values + 16);
    }
    return (__m512i) _mm512_cvtne2ps_pbh(high, low);
}

void pack_weight_pairs(const float* weights, std::int64_t stride, std::int64_t k, void* panel) {
    auto* out = static_cast<std::uint16_t*>(panel);
    for (std::int64_t first = 0; first < k; first += pair_depth) {
        for (std::int64_t half = 0; half < 2; ++half) {
            __m512i rows[lanes];
            for (int i = 0; i < lanes; ++i)
                rows[i] = round_32(weights + (half * lanes + i) * stride + first, k - first);
            transpose(rows);
            for (int i = 0; i < lanes; ++i)
                _mm512_store_si512(out + i * 32, rows[i]);
            out += half_tile;
        }
    }
}

void pack_column_pairs(const float* weights, std::int64_t stride, std::int64_t k, void* panel) {
    auto* out = static_cast<std::uint16_t*>(panel);
    for (std::int64_t first = 0; first < k; first += pair_depth) {
        for (std::int64_t half = 0; half < 2; ++half) {
            const float* from = weights + first * stride + half * lanes;
            for (int pair = 0; pair < 16; ++pair) {
                // Rounded, the pair's first values are in the low halves and its second ones in the high.
                const __m512i both =
                    (__m512i) _mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + (2 * pair + 1) * stride),
                                                  _mm512_loadu_ps(from + 2 * pair * stride));
                const __m512i evens = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(both));
                const __m512i odds = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(both, 1));
                _mm512_store_si512(out + pair * 32, _mm512_or_si512(evens, _mm512_slli_epi32(odds, 16)));
            }
            out += half_tile;
        }
    }
}

void pack_nvfp4_pairs(const std::uint8_t* rows, std::size_t stride, std::int64_t count, std::int64_t k,
                      void* panel) {
    for (std::int64_t half = 0; half < 2; ++half) {
        auto* out = static_cast<std::uint16_t*>(panel) + half * static_cast<std::int64_t>(half_tile);
        const std::int64_t first = half * lanes < count ? half * lanes : count - 1;
        decode_nvfp4(rows + static_cast<std::size_t>(first) * stride, stride, count - first, k,
                     [&](std::int64_t pair, __m512 even, __m512 odd) {
                         // Exact in BF16: the low halves are zeros.
                         const __m512i both = _mm512_or_si512(
                             _mm512_srli_epi32(_mm512_castps_si512(even), 16), _mm512_castps_si512(odd));
                         _mm512_store_si512(out + (pair / 16) * 2 * static_cast<std::int64_t>(half_tile) +
                                                (pair % 16) * 32,
                                            both);
                     });
    }
}

} // namespace
} // namespace twofold
