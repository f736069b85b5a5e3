// BF16 products in pairs along K (VDPBF16PS): 14 rows by 32 columns of accumulators.
#include "kernels/avx512_bf16_pack.h"
#include "kernels/kernel.h"
#include "kernels/softmax.h"

namespace twofold {
namespace {

constexpr std::int64_t strip = 14;

// A strip is [K / 2][14 rows][2].
void pack_rows(const float* const* rows, std::int64_t count, std::int64_t k, void* packed) {
    auto* out = static_cast<std::uint32_t*>(packed);
    for (std::int64_t first = 0; first < k; first += pair_depth) {
        __m512i pairs[lanes];
        for (std::int64_t row = 0; row < lanes; ++row)
            pairs[row] = row < count ? round_32(rows[row] + first, k - first) : _mm512_setzero_si512();
        transpose(pairs);
        for (const __m512i& pair : pairs) {
            _mm512_mask_storeu_epi32(out, (1U << strip) - 1, pair);
            out += strip;
        }
    }
}

template <int rows>
[[gnu::always_inline]] inline void multiply_rows(const void* packed_rows, const void* panel, std::int64_t k,
                                                 const float* initial, float* out, std::int64_t out_stride) {
    const auto* a = static_cast<const std::int32_t*>(packed_rows);
    const auto* b = static_cast<const std::uint16_t*>(panel);
    __m512 sums[rows][2];
#pragma GCC unroll 14
    for (int row = 0; row < rows; ++row) {
        sums[row][0] = initial ? _mm512_loadu_ps(initial + row * pair_panel) : _mm512_setzero_ps();
        sums[row][1] = initial ? _mm512_loadu_ps(initial + row * pair_panel + 16) : _mm512_setzero_ps();
    }
    for (std::int64_t first = 0; first < k; first += pair_depth) {
        for (int pair = 0; pair < 16; ++pair) {
            const auto left = (__m512bh) _mm512_load_si512(b + pair * 32);
            const auto right = (__m512bh) _mm512_load_si512(b + half_tile + pair * 32);
#pragma GCC unroll 14
            for (int row = 0; row < rows; ++row) {
                const auto both = (__m512bh) _mm512_set1_epi32(a[row]);
                sums[row][0] = _mm512_dpbf16_ps(sums[row][0], both, left);
                sums[row][1] = _mm512_dpbf16_ps(sums[row][1], both, right);
            }
            a += strip;
        }
        b += 2 * half_tile;
    }
#pragma GCC unroll 14
    for (int row = 0; row < rows; ++row) {
        _mm512_storeu_ps(out + row * out_stride, sums[row][0]);
        _mm512_storeu_ps(out + row * out_stride + 16, sums[row][1]);
    }
}

void multiply(const void* packed_rows, const void* panel, std::int64_t k, std::int64_t used,
              const float* sums, float* out, std::int64_t out_stride) {
    if (used > strip / 2)
        multiply_rows<strip>(packed_rows, panel, k, sums, out, out_stride);
    else
        multiply_rows<strip / 2>(packed_rows, panel, k, sums, out, out_stride);
}

double spin(std::int64_t rounds) {
    __m512 sums[16] = {};
    const auto values = (__m512bh) _mm512_set1_epi32(0x3F803F80);
    for (std::int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 16
        for (__m512& sum : sums) {
            sum = _mm512_dpbf16_ps(sum, values, values);
            __asm__ volatile("" : "+v"(sum)); // as far as the compiler knows, each result is used
        }
    }
    return static_cast<double>(rounds) * 16 * 64;
}

} // namespace

const Kernel kernel_avx512_bf16 = {
    .name = "avx512bf16",
    .strip = strip,
    .panel = pair_panel,
    .depth = pair_depth,
    .element_bytes = 2,
    .block_rows = 504,
    .begin = nullptr,
    .end = nullptr,
    .pack_rows = pack_rows,
    .pack_weights = pack_weight_pairs,
    .pack_nvfp4 = pack_nvfp4_pairs,
    .pack_columns = pack_column_pairs,
    .multiply = multiply,
    .scale_scores = scale_scores,
    .exponentiate = exponentiate,
    .attention = &floats_avx512,
    .spin = spin,
};

} // namespace twofold
