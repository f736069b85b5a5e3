// FP32 products of BF16-rounded operands on AVX2 with FMA: 6 rows by 16 columns of accumulators.
#include "kernels/kernel.h"
#include "kernels/softmax.h"

#include <immintrin.h>

#include <cstring>

namespace twofold {
namespace {

constexpr std::int64_t strip = 6;
constexpr std::int64_t panel = 16;
constexpr std::int64_t depth = 8;
constexpr int lanes = 8;
constexpr std::int64_t nvfp4_weights = 64;
constexpr std::size_t nvfp4_bytes = 36;

// In place: element j of vector i becomes element i of vector j.
[[gnu::always_inline]] inline void transpose(__m256 (&v)[lanes]) {
    __m256 t[lanes];
    for (int i = 0; i < 4; ++i) {
        t[2 * i] = _mm256_unpacklo_ps(v[2 * i], v[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_ps(v[2 * i], v[2 * i + 1]);
    }
    for (int i = 0; i < 2; ++i) {
        v[4 * i] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
        v[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xEE);
        v[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
        v[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xEE);
    }
    for (int i = 0; i < 4; ++i) {
        t[i] = _mm256_permute2f128_ps(v[i], v[i + 4], 0x20);
        t[i + 4] = _mm256_permute2f128_ps(v[i], v[i + 4], 0x31);
    }
    for (int i = 0; i < lanes; ++i)
        v[i] = t[i];
}

// 8 values, if `rounded` to the nearest BF16, ties to even; those beyond `left` are zeros, NaN stays NaN.
template <bool rounded> [[gnu::always_inline]] inline __m256 load_8(const float* values, std::int64_t left) {
    __m256 loaded;
    if (left >= lanes) {
        loaded = _mm256_loadu_ps(values);
    } else {
        const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        loaded =
            _mm256_maskload_ps(values, _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(left)), index));
    }
    if (!rounded)
        return loaded;
    const __m256i bits = _mm256_castps_si256(loaded);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i nearest =
        _mm256_and_si256(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF))),
                         _mm256_set1_epi32(static_cast<int>(0xFFFF0000U)));
    const __m256 nan = _mm256_cmp_ps(loaded, loaded, _CMP_UNORD_Q);
    return _mm256_blendv_ps(_mm256_castsi256_ps(nearest), _mm256_castsi256_ps(_mm256_set1_epi32(0x7FC00000)),
                            nan);
}

// A strip is [K][6 rows].
template <bool rounded>
void pack_rows(const float* const* rows, std::int64_t count, std::int64_t k, void* packed) {
    auto* out = static_cast<float*>(packed);
    const __m256i kept = _mm256_setr_epi32(-1, -1, -1, -1, -1, -1, 0, 0);
    for (std::int64_t first = 0; first < k; first += depth) {
        __m256 block[lanes];
        for (std::int64_t row = 0; row < lanes; ++row)
            block[row] = row < count ? load_8<rounded>(rows[row] + first, k - first) : _mm256_setzero_ps();
        transpose(block);
        for (const __m256& values : block) {
            _mm256_maskstore_ps(out, kept, values);
            out += strip;
        }
    }
}

// A panel is [K][16 rows].
template <bool rounded>
void pack_weights(const float* weights, std::int64_t stride, std::int64_t k, void* packed) {
    auto* out = static_cast<float*>(packed);
    for (std::int64_t first = 0; first < k; first += depth) {
        for (std::int64_t half = 0; half < 2; ++half) {
            __m256 block[lanes];
            for (int i = 0; i < lanes; ++i)
                block[i] = load_8<rounded>(weights + (half * lanes + i) * stride + first, k - first);
            transpose(block);
            for (int i = 0; i < lanes; ++i)
                _mm256_store_ps(out + (first + i) * panel + half * lanes, block[i]);
        }
    }
}

template <bool rounded>
void pack_columns(const float* weights, std::int64_t stride, std::int64_t k, void* packed) {
    auto* out = static_cast<float*>(packed);
    for (std::int64_t i = 0; i < k; ++i) {
        for (std::int64_t half = 0; half < panel; half += lanes)
            _mm256_store_ps(out + i * panel + half, load_8<rounded>(weights + i * stride + half, lanes));
    }
}

// Eight rows of weights at once, one a lane.
[[gnu::always_inline]] inline void decode_nvfp4(const std::uint8_t* rows, std::size_t stride,
                                                std::int64_t row_count, std::int64_t count, float* out) {
    // Magnitudes of E2M1; the factor undoes the exponent bias of scales read as half floats.
    const __m256 values = _mm256_mul_ps(_mm256_setr_ps(0, .5F, 1, 1.5F, 2, 3, 4, 6), _mm256_set1_ps(256));
    const __m256i sign = _mm256_set1_epi32(static_cast<int>(0x80000000U));
    const std::uint8_t* row[lanes];
    for (int i = 0; i < lanes; ++i)
        row[i] = rows + static_cast<std::size_t>(i < row_count ? i : row_count - 1) * stride;

    for (std::int64_t k = 0; k < count; k += nvfp4_weights) {
        alignas(32) std::uint32_t words[9][lanes]; // scales, then codes: dword d of each row
        for (int i = 0; i < lanes; ++i) {
            std::uint32_t block[9];
            std::memcpy(block, row[i], nvfp4_bytes);
            for (int d = 0; d < 9; ++d)
                words[d][i] = block[d];
            row[i] += nvfp4_bytes;
        }
        for (int sub = 0; sub < 4; ++sub) {
            const __m256i all = _mm256_load_si256(reinterpret_cast<const __m256i*>(words[0]));
            const __m256i code =
                _mm256_and_si256(_mm256_srl_epi32(all, _mm_cvtsi32_si128(8 * sub)), _mm256_set1_epi32(0xFF));
            const __m256i infinite = _mm256_cmpeq_epi32(code, _mm256_set1_epi32(0x7F));
            // E4M3's exponent and mantissa, placed where a half float has them.
            const __m256i halves = _mm256_slli_epi32(
                _mm256_andnot_si256(infinite, _mm256_and_si256(code, _mm256_set1_epi32(0x7F))), 7);
            const __m256 scale = _mm256_cvtph_ps(
                _mm_packus_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1)));
            const auto decoded = [&](const __m256i& codes, int first) {
                const __m256i lowest = _mm256_srl_epi32(codes, _mm_cvtsi32_si128(first));
                const __m256 size = _mm256_permutevar8x32_ps(values, lowest);
                const __m256i negative = _mm256_and_si256(_mm256_slli_epi32(lowest, 28), sign);
                return _mm256_mul_ps(_mm256_xor_ps(size, _mm256_castsi256_ps(negative)), scale);
            };
            // Elements 0..7 are the low halves of the sub-block's eight bytes, 8..15 the high ones.
            for (int d = 0; d < 2; ++d) {
                const __m256i w = _mm256_load_si256(reinterpret_cast<const __m256i*>(words[1 + 2 * sub + d]));
                float* to = out + (k + sub * 16 + d * 4) * panel;
                for (int byte = 0; byte < 4; ++byte) {
                    _mm256_store_ps(to + byte * panel, decoded(w, 8 * byte));
                    _mm256_store_ps(to + (8 + byte) * panel, decoded(w, 8 * byte + 4));
                }
            }
        }
    }
}

void pack_nvfp4(const std::uint8_t* rows, std::size_t stride, std::int64_t count, std::int64_t k,
                void* packed) {
    for (std::int64_t half = 0; half < 2; ++half) {
        const std::int64_t first = half * lanes < count ? half * lanes : count - 1;
        decode_nvfp4(rows + static_cast<std::size_t>(first) * stride, stride, count - first, k,
                     static_cast<float*>(packed) + half * lanes);
    }
}

void multiply(const void* packed_rows, const void* packed, std::int64_t k, std::int64_t /*used*/,
              const float* initial, float* out, std::int64_t out_stride) {
    const auto* a = static_cast<const float*>(packed_rows);
    const auto* b = static_cast<const float*>(packed);
    __m256 sums[strip][2];
#pragma GCC unroll 6
    for (int row = 0; row < strip; ++row) {
        sums[row][0] = initial ? _mm256_loadu_ps(initial + row * panel) : _mm256_setzero_ps();
        sums[row][1] = initial ? _mm256_loadu_ps(initial + row * panel + 8) : _mm256_setzero_ps();
    }
    for (std::int64_t i = 0; i < k; ++i) {
        const __m256 left = _mm256_load_ps(b);
        const __m256 right = _mm256_load_ps(b + 8);
#pragma GCC unroll 6
        for (int row = 0; row < strip; ++row) {
            const __m256 value = _mm256_broadcast_ss(a + row);
            sums[row][0] = _mm256_fmadd_ps(value, left, sums[row][0]);
            sums[row][1] = _mm256_fmadd_ps(value, right, sums[row][1]);
        }
        a += strip;
        b += panel;
    }
#pragma GCC unroll 6
    for (int row = 0; row < strip; ++row) {
        _mm256_storeu_ps(out + row * out_stride, sums[row][0]);
        _mm256_storeu_ps(out + row * out_stride + 8, sums[row][1]);
    }
}

double spin(std::int64_t rounds) {
    __m256 sums[12] = {};
    const __m256 values = _mm256_set1_ps(1);
    for (std::int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
        for (__m256& sum : sums) {
            sum = _mm256_fmadd_ps(values, values, sum);
            __asm__ volatile("" : "+x"(sum)); // as far as the compiler knows, each result is used
        }
    }
    return static_cast<double>(rounds) * 12 * 16;
}

constexpr Kernel rounding = {
    .name = "avx2",
    .strip = strip,
    .panel = panel,
    .depth = depth,
    .element_bytes = 4,
    .block_rows = 96,
    .begin = nullptr,
    .end = nullptr,
    .pack_rows = pack_rows<true>,
    .pack_weights = pack_weights<true>,
    .pack_nvfp4 = pack_nvfp4,
    .pack_columns = pack_columns<true>,
    .multiply = multiply,
    .scale_scores = scale_scores,
    .exponentiate = exponentiate,
    .attention = &floats_avx2,
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

const Kernel kernel_avx2 = rounding;
const Kernel floats_avx2 = without_rounding();

} // namespace twofold
