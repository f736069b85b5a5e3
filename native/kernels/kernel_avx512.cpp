// FP32 products of BF16-rounded operands on AVX-512: 14 rows by 32 columns of accumulators.
#include "kernels/avx512_pack.h"
#include "kernels/kernel.h"
#include "kernels/softmax.h"

namespace twofold {
namespace {

constexpr std::int64_t strip = 14;
constexpr std::int64_t panel = 32;
constexpr std::int64_t depth = 16;

// Rounds FP32 to the nearest BF16, ties to even, as FP32; NaN stays NaN.
[[gnu::always_inline]] inline __m512i round_to_bf16(const __m512& values) {
    const __m512i bits = _mm512_castps_si512(values);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
    const __mmask16 nan = _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q);
    return _mm512_and_si512(_mm512_mask_mov_epi32(rounded, nan, _mm512_set1_epi32(0x7FC00000)),
                            _mm512_set1_epi32(static_cast<int>(0xFFFF0000U)));
}

template <bool rounded>
[[gnu::always_inline]] inline __m512i load_16(const float* values, std::int64_t left) {
    const auto mask = static_cast<__mmask16>(left >= 16 ? 0xFFFFU : (1U << left) - 1);
    const __m512 loaded = _mm512_maskz_loadu_ps(mask, values);
    return rounded ? round_to_bf16(loaded) : _mm512_castps_si512(loaded);
}

// A strip is [K][14 rows].
template <bool rounded>
void pack_rows(const float* const* rows, std::int64_t count, std::int64_t k, void* packed) {
    auto* out = static_cast<float*>(packed);
    for (std::int64_t first = 0; first < k; first += depth) {
        __m512i block[lanes];
        for (std::int64_t row = 0; row < lanes; ++row)
            block[row] =
                row < count ? load_16<rounded>(rows[row] + first, k - first) : _mm512_setzero_si512();
        transpose(block);
        for (const __m512i& values : block) {
            _mm512_mask_storeu_epi32(out, (1U << strip) - 1, values);
            out += strip;
        }
    }
}

// A panel is [K][32 rows].
template <bool rounded>
void pack_weights(const float* weights, std::int64_t stride, std::int64_t k, void* packed) {
    auto* out = static_cast<float*>(packed);
    for (std::int64_t first = 0; first < k; first += depth) {
        for (std::int64_t half = 0; half < 2; ++half) {
            __m512i block[lanes];
            for (int i = 0; i < lanes; ++i)
                block[i] = load_16<rounded>(weights + (half * lanes + i) * stride + first, k - first);
            transpose(block);
            for (int i = 0; i < lanes; ++i)
                _mm512_store_si512(out + (first + i) * panel + half * lanes, block[i]);
        }
    }
}

template <bool rounded>
void pack_columns(const float* weights, std::int64_t stride, std::int64_t k, void* packed) {
    auto* out = static_cast<float*>(packed);
    for (std::int64_t i = 0; i < k; ++i) {
        for (std::int64_t half = 0; half < panel; half += lanes)
            _mm512_store_si512(out + i * panel + half, load_16<rounded>(weights + i * stride + half, lanes));
    }
}

void pack_nvfp4(const std::uint8_t* rows, std::size_t stride, std::int64_t count, std::int64_t k,
                void* packed) {
    for (std::int64_t half = 0; half < 2; ++half) {
        float* out = static_cast<float*>(packed) + half * lanes;
        const std::int64_t first = half * lanes < count ? half * lanes : count - 1;
        decode_nvfp4(rows + static_cast<std::size_t>(first) * stride, stride, count - first, k,
                     [&](std::int64_t pair, __m512 even, __m512 odd) {
                         _mm512_store_ps(out + 2 * pair * panel, even);
                         _mm512_store_ps(out + (2 * pair + 1) * panel, odd);
                     });
    }
}

template <int rows>
[[gnu::always_inline]] inline void multiply_rows(const void* packed_rows, const void* packed, std::int64_t k,
                                                 const float* initial, float* out, std::int64_t out_stride) {
    const auto* a = static_cast<const float*>(packed_rows);
    const auto* b = static_cast<const float*>(packed);
    __m512 sums[rows][2];
#pragma GCC unroll 14
    for (int row = 0; row < rows; ++row) {
        sums[row][0] = initial ? _mm512_loadu_ps(initial + row * panel) : _mm512_setzero_ps();
        sums[row][1] = initial ? _mm512_loadu_ps(initial + row * panel + 16) : _mm512_setzero_ps();
    }
    for (std::int64_t i = 0; i < k; ++i) {
        const __m512 left = _mm512_load_ps(b);
        const __m512 right = _mm512_load_ps(b + 16);
#pragma GCC unroll 14
        for (int row = 0; row < rows; ++row) {
            const __m512 value = _mm512_set1_ps(a[row]);
            sums[row][0] = _mm512_fmadd_ps(value, left, sums[row][0]);
            sums[row][1] = _mm512_fmadd_ps(value, right, sums[row][1]);
        }
        a += strip;
        b += panel;
    }
#pragma GCC unroll 14
    for (int row = 0; row < rows; ++row) {
        _mm512_storeu_ps(out + row * out_stride, sums[row][0]);
        _mm512_storeu_ps(out + row * out_stride + 16, sums[row][1]);
    }
}

void multiply(const void* packed_rows, const void* packed, std::int64_t k, std::int64_t used,
              const float* sums, float* out, std::int64_t out_stride) {
    if (used > strip / 2)
        multiply_rows<strip>(packed_rows, packed, k, sums, out, out_stride);
    else
        multiply_rows<strip / 2>(packed_rows, packed, k, sums, out, out_stride);
}

double spin(std::int64_t rounds) {
    __m512 sums[16] = {};
    const __m512 values = _mm512_set1_ps(1);
    for (std::int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 16
        for (__m512& sum : sums) {
            sum = _mm512_fmadd_ps(values, values, sum);
            __asm__ volatile("" : "+v"(sum)); // as far as the compiler knows, each result is used
        }
    }
    return static_cast<double>(rounds) * 16 * 32;
}

constexpr Kernel rounding = {
    .name = "avx512",
    .strip = strip,
    .panel = panel,
    .depth = depth,
    .element_bytes = 4,
    .block_rows = 252,
    .begin = nullptr,
    .end = nullptr,
    .pack_rows = pack_rows<true>,
    .pack_weights = pack_weights<true>,
    .pack_nvfp4 = pack_nvfp4,
    .pack_columns = pack_columns<true>,
    .multiply = multiply,
    .scale_scores = scale_scores,
    .exponentiate = exponentiate,
    .attention = &floats_avx512,
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

const Kernel kernel_avx512 = rounding;
const Kernel floats_avx512 = without_rounding();

} // namespace twofold
