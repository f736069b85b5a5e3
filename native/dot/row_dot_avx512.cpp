// Dot products on 16 lanes; 8-bit ones through VNNI, with table look-ups through VBMI.
#include "dot/prepared.h"
#include "dot/row_dot_kinds.h"

#include <immintrin.h>

#include <cstring>

namespace twofold {

namespace {

constexpr std::size_t nvfp4_bytes = 36;
constexpr std::size_t q2_0_bytes = 18;
constexpr std::size_t iq1_s_bytes = 50;
constexpr std::size_t iq2_xxs_bytes = 66;

template <typename T> [[gnu::always_inline]] inline T load(const void* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

[[gnu::always_inline]] inline float from_half(const std::uint8_t* from) {
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(load<std::uint16_t>(from))));
}

// Scales of two blocks' sub-blocks, two lanes each, as 2^-8 of their value.
[[gnu::always_inline]] inline __m512 nvfp4_lane_scales(const std::uint8_t* first,
                                                       const std::uint8_t* second) {
    const __m256i spread = _mm256_setr_epi8(0, -1, 0, -1, 1, -1, 1, -1, 2, -1, 2, -1, 3, -1, 3, -1, 4, -1, 4,
                                            -1, 5, -1, 5, -1, 6, -1, 6, -1, 7, -1, 7, -1);
    const auto eight = load<std::uint32_t>(first) | std::uint64_t{load<std::uint32_t>(second)} << 32;
    const __m256i codes = _mm256_shuffle_epi8(_mm256_set1_epi64x(static_cast<long long>(eight)), spread);
    const __mmask16 numbers = _mm256_cmpneq_epi16_mask(codes, _mm256_set1_epi16(0x7F));
    // E4M3's exponent and mantissa, placed where a half float has them.
    return _mm512_cvtph_ps(
        _mm256_maskz_slli_epi16(numbers, _mm256_and_si256(codes, _mm256_set1_epi16(0x7F)), 7));
}

// `second`: of two blocks, the one that may lie elsewhere.
[[gnu::always_inline]] inline __m512 add_nvfp4(__m512 sums, const std::uint8_t* first,
                                               const std::uint8_t* second, const Words128& token) {
    const __m512i values =
        _mm512_broadcast_i32x4(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    const __m512i nibble = _mm512_set1_epi8(15);
    const auto load_codes = [](const std::uint8_t* block) {
        return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block + 4));
    };
    const __m512i codes =
        _mm512_inserti64x4(_mm512_castsi256_si512(load_codes(first)), load_codes(second), 1);
    const __m512i left = _mm512_shuffle_epi8(values, _mm512_and_si512(codes, nibble));
    const __m512i right = _mm512_shuffle_epi8(values, _mm512_and_si512(_mm512_srli_epi16(codes, 4), nibble));
    __m512i high = _mm512_dpbusd_epi32(_mm512_setzero_si512(), left, _mm512_loadu_si512(token.high[0]));
    __m512i low =
        _mm512_dpbusd_epi32(_mm512_loadu_si512(token.minus_sum), left, _mm512_loadu_si512(token.low[0]));
    high = _mm512_dpbusd_epi32(high, right, _mm512_loadu_si512(token.high[1]));
    low = _mm512_dpbusd_epi32(low, right, _mm512_loadu_si512(token.low[1]));
    const __m512 products = _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32(high, 8), low));
    const __m512 scales = _mm512_mul_ps(nvfp4_lane_scales(first, second), _mm512_loadu_ps(token.scale));
    return _mm512_fmadd_ps(products, scales, sums);
}

template <int rows>
[[gnu::always_inline]] inline void multiply_nvfp4_rows(const std::uint8_t* block, std::size_t stride,
                                                       std::int64_t k, const Words128* token,
                                                       float* results) {
    __m512 sums[rows];
    for (__m512& sum : sums)
        sum = _mm512_setzero_ps();
    std::int64_t first = 0;
    const std::size_t ahead = rows * stride; // the rows after these; beyond the last a prefetch does nothing
    for (; first + 128 <= k; first += 128, block += 2 * nvfp4_bytes, ++token) {
#pragma GCC unroll 4
        for (int row = 0; row < rows; ++row) {
            const std::uint8_t* of_row = block + static_cast<std::size_t>(row) * stride;
            _mm_prefetch(reinterpret_cast<const char*>(of_row + ahead), _MM_HINT_T0);
            sums[row] = add_nvfp4(sums[row], of_row, of_row + nvfp4_bytes, *token);
        }
    }
    if (first < k) { // nothing is read beyond the row
        constexpr std::uint8_t zeros[nvfp4_bytes] = {};
        for (int row = 0; row < rows; ++row)
            sums[row] = add_nvfp4(sums[row], block + static_cast<std::size_t>(row) * stride, zeros, *token);
    }
    for (int row = 0; row < rows; ++row)
        results[row] = _mm512_reduce_add_ps(sums[row]);
}

void multiply_nvfp4(const std::uint8_t* rows, std::size_t stride, std::int64_t count, std::int64_t k,
                    const void* prepared, float* results) {
    const auto* token = static_cast<const Words128*>(prepared);
    std::int64_t row = 0;
    for (; row + 4 <= count; row += 4)
        multiply_nvfp4_rows<4>(rows + static_cast<std::size_t>(row) * stride, stride, k, token,
                               results + row);
    for (; row < count; ++row)
        multiply_nvfp4_rows<1>(rows + static_cast<std::size_t>(row) * stride, stride, k, token,
                               results + row);
}

// `codes`: 256 weights of two bits, four a byte, unsigned.
[[gnu::always_inline]] inline __m512i multiply_codes(__m512i sums, __m512i codes, const Bytes256& token) {
    const __m512i low = _mm512_set1_epi8(3);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j)
        sums = _mm512_dpbusd_epi32(sums, _mm512_and_si512(_mm512_srli_epi16(codes, 2 * j), low),
                                   _mm512_loadu_si512(token.part[j]));
    return sums;
}

void multiply_q2_0(const std::uint8_t* rows, std::size_t stride, std::int64_t count, std::int64_t k,
                   const void* prepared, float* results) {
    const __m512i to_lanes = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    for (std::int64_t row = 0; row < count; ++row) {
        const std::uint8_t* block = rows + static_cast<std::size_t>(row) * stride;
        const auto* token = static_cast<const Bytes256*>(prepared);
        __m512 sums = _mm512_setzero_ps();
        for (std::int64_t first = 0; first < k; first += prepared_step, ++token) {
            std::uint8_t rest[4 * q2_0_bytes] = {};
            const std::uint8_t* from = block;
            if (k - first < prepared_step) { // nothing is read beyond the row
                std::memcpy(rest, block, static_cast<std::size_t>((k - first) / 64) * q2_0_bytes);
                from = rest;
            }
            const auto quarter = [&](int i) {
                return _mm_loadu_si128(
                    reinterpret_cast<const __m128i*>(from + static_cast<std::size_t>(i) * q2_0_bytes + 2));
            };
            __m512i codes = _mm512_castsi128_si512(quarter(0));
            codes = _mm512_inserti32x4(codes, quarter(1), 1);
            codes = _mm512_inserti32x4(codes, quarter(2), 2);
            codes = _mm512_inserti32x4(codes, quarter(3), 3);
            __m128i halves = _mm_cvtsi32_si128(load<std::uint16_t>(from));
            halves = _mm_insert_epi16(halves, load<std::int16_t>(from + q2_0_bytes), 1);
            halves = _mm_insert_epi16(halves, load<std::int16_t>(from + 2 * q2_0_bytes), 2);
            halves = _mm_insert_epi16(halves, load<std::int16_t>(from + 3 * q2_0_bytes), 3);
            const __m512 scales =
                _mm512_permutexvar_ps(to_lanes, _mm512_castps128_ps512(_mm_cvtph_ps(halves)));
            const __m512i products =
                multiply_codes(_mm512_loadu_si512(token->minus_sum), codes, *token); // a code is value + 1
            sums = _mm512_fmadd_ps(_mm512_cvtepi32_ps(products),
                                   _mm512_mul_ps(scales, _mm512_loadu_ps(token->scale)), sums);
            block += 4 * q2_0_bytes;
        }
        results[row] = _mm512_reduce_add_ps(sums);
    }
}

void multiply_iq1_s(const std::uint8_t* rows, std::size_t stride, std::int64_t count, std::int64_t k,
                    const void* prepared, float* results) {
    const std::uint16_t* grid = grid_codes().iq1_s;
    const __m512i pairs = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    // Which of the eight words each of 32 indices has its high bits in, and from which bit on.
    const __m512i fours = _mm512_set_epi16(7, 7, 7, 7, 6, 6, 6, 6, 5, 5, 5, 5, 4, 4, 4, 4, 3, 3, 3, 3, 2, 2,
                                           2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
    const __m512i high_bits = _mm512_set1_epi64(0x0009'0006'0003'0000);
    for (std::int64_t row = 0; row < count; ++row) {
        const std::uint8_t* block = rows + static_cast<std::size_t>(row) * stride;
        const auto* token = static_cast<const Bytes256*>(prepared);
        __m512 sums = _mm512_setzero_ps();
        for (std::int64_t first = 0; first < k; first += prepared_step, ++token, block += iq1_s_bytes) {
            const __m128i words = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + 34));
            const __m512i high = _mm512_and_si512(
                _mm512_srlv_epi16(_mm512_permutexvar_epi16(fours, _mm512_castsi128_si512(words)), high_bits),
                _mm512_set1_epi16(7));
            const __m512i index = _mm512_or_si512(
                _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(block + 2))),
                _mm512_slli_epi16(high, 8));
            const auto look_up = [&](const __m512i& at) { return _mm512_i32gather_epi32(at, grid, 2); };
            const __m512i even = look_up(_mm512_and_si512(index, _mm512_set1_epi32(0xFFFF)));
            const __m512i odd = look_up(_mm512_srli_epi32(index, 16));
            const __m512i codes = _mm512_mask_blend_epi16(0xAAAA'AAAA, even, _mm512_slli_epi32(odd, 16));
            const __m512i minus_sum = _mm512_loadu_si512(token->minus_sum);
            const __m512 products = _mm512_cvtepi32_ps(multiply_codes(minus_sum, codes, *token));
            const __m512i lane_words =
                _mm512_permutexvar_epi32(pairs, _mm512_castsi256_si512(_mm256_cvtepu16_epi32(words)));
            // The top bit is the sign of the shift by 1/8, the three below it are the scale.
            const __m512i sign = _mm512_slli_epi32(_mm512_srli_epi32(lane_words, 15), 31);
            const __m512 shift = _mm512_castsi512_ps(
                _mm512_xor_si512(sign, _mm512_castps_si512(_mm512_set1_ps(-0.125F)))); // of minus the sum
            const __m512i scale =
                _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi32(lane_words, 11), _mm512_set1_epi32(14)),
                                _mm512_set1_epi32(1));
            const __m512 shifted = _mm512_fmadd_ps(_mm512_cvtepi32_ps(minus_sum), shift, products);
            const __m512 scales =
                _mm512_mul_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(scale), _mm512_set1_ps(from_half(block))),
                              _mm512_loadu_ps(token->scale));
            sums = _mm512_fmadd_ps(shifted, scales, sums);
        }
        results[row] = _mm512_reduce_add_ps(sums);
    }
}

template <int rows>
[[gnu::always_inline]] inline void multiply_iq2_xxs_rows(const std::uint8_t* first_row, std::size_t stride,
                                                         std::int64_t k, const Bytes256* token,
                                                         float* results) {
    const GridCodes& tables = grid_codes();
    __m512i grid[8];
    for (int i = 0; i < 8; ++i)
        grid[i] = _mm512_load_si512(tables.iq2_xxs + static_cast<std::ptrdiff_t>(i) * 32);
    const __m512i signs_low = _mm512_load_si512(tables.signs);
    const __m512i signs_high = _mm512_load_si512(tables.signs + 64);
    // Of each eight bytes, the first four as words; and four times seven bits from the others.
    const __m512i widen =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, -1, 1, -1, 2, -1, 3, -1, 8, -1, 9, -1, 10, -1, 11, -1));
    const __m512i sevens = _mm512_set1_epi64(0x0035'002E'0027'0020);
    const __m512i sizes =
        _mm512_broadcast_i32x4(_mm_setr_epi8(8, 25, 43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    constexpr __mmask64 low_bytes = 0x5555'5555'5555'5555;
    __m512 sums[rows];
    for (__m512& sum : sums)
        sum = _mm512_setzero_ps();
    for (std::int64_t first = 0; first < k; first += prepared_step, ++token, first_row += iq2_xxs_bytes) {
#pragma GCC unroll 4
        for (int row = 0; row < rows; ++row) {
            const std::uint8_t* block = first_row + static_cast<std::size_t>(row) * stride;
            const __m512i packed = _mm512_loadu_si512(block + 2);
            const __m512i index = _mm512_shuffle_epi8(packed, widen);
            const __mmask32 bit6 = _mm512_test_epi16_mask(index, _mm512_set1_epi16(64));
            const __mmask32 bit7 = _mm512_test_epi16_mask(index, _mm512_set1_epi16(128));
            const auto quarter = [&](int i) {
                return _mm512_permutex2var_epi16(grid[2 * i], index, grid[2 * i + 1]);
            };
            const __m512i codes =
                _mm512_mask_blend_epi16(bit7, _mm512_mask_blend_epi16(bit6, quarter(0), quarter(1)),
                                        _mm512_mask_blend_epi16(bit6, quarter(2), quarter(3)));
            const __m512i seven =
                _mm512_and_si512(_mm512_multishift_epi64_epi8(sevens, packed), _mm512_set1_epi16(127));
            const __m512i eight = _mm512_maskz_permutex2var_epi8(low_bytes, signs_low, seven, signs_high);
            // The low bytes' upper halves go to the high bytes: four signs a byte, as codes are.
            const __m512i signs = _mm512_or_si512(eight, _mm512_slli_epi16(eight, 4));
            __m512i products = _mm512_setzero_si512();
#pragma GCC unroll 4
            for (int j = 0; j < 4; ++j) {
                const __m512i code = _mm512_and_si512(_mm512_srli_epi16(codes, 2 * j), _mm512_set1_epi8(3));
                const __m512i values = _mm512_loadu_si512(token->part[j]);
                const __mmask64 negative =
                    _mm512_test_epi8_mask(signs, _mm512_set1_epi8(static_cast<char>(1 << j)));
                products = _mm512_dpbusd_epi32(
                    products, _mm512_shuffle_epi8(sizes, code),
                    _mm512_mask_sub_epi8(values, negative, _mm512_setzero_si512(), values));
            }
            __m512i scale = _mm512_srli_epi64(packed, 60);
            scale = _mm512_or_si512(scale, _mm512_slli_epi64(scale, 32));
            const __m512 scales = _mm512_mul_ps(
                _mm512_add_ps(_mm512_cvtepi32_ps(scale), _mm512_set1_ps(0.5F)),
                _mm512_mul_ps(_mm512_loadu_ps(token->scale), _mm512_set1_ps(0.25F * from_half(block))));
            sums[row] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(products), scales, sums[row]);
        }
    }
    for (int row = 0; row < rows; ++row)
        results[row] = _mm512_reduce_add_ps(sums[row]);
}

void multiply_iq2_xxs(const std::uint8_t* rows, std::size_t stride, std::int64_t count, std::int64_t k,
                      const void* prepared, float* results) {
    const auto* token = static_cast<const Bytes256*>(prepared);
    std::int64_t row = 0;
    for (; row + 2 <= count; row += 2)
        multiply_iq2_xxs_rows<2>(rows + static_cast<std::size_t>(row) * stride, stride, k, token,
                                 results + row);
    if (row < count)
        multiply_iq2_xxs_rows<1>(rows + static_cast<std::size_t>(row) * stride, stride, k, token,
                                 results + row);
}

} // namespace

const RowDot avx512_nvfp4{nvfp4_token_bytes, prepare_nvfp4_token, multiply_nvfp4};
const RowDot avx512_q2_0{bytes_token_bytes, prepare_bytes_token, multiply_q2_0};
const RowDot avx512_iq1_s{bytes_token_bytes, prepare_bytes_token, multiply_iq1_s};
const RowDot avx512_iq2_xxs{bytes_token_bytes, prepare_bytes_token, multiply_iq2_xxs};

} // namespace twofold
