// Dot products on eight lanes, and the preparation of tokens for all of x86-64.
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
constexpr std::int64_t half = 128; // weights whose codes fill a register

template <typename T> [[gnu::always_inline]] inline T load(const void* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

[[gnu::always_inline]] inline __m256i load_256(const void* from) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}

[[gnu::always_inline]] inline __m128i load_128(const void* from) {
    return _mm_loadu_si128(static_cast<const __m128i*>(from));
}

[[gnu::always_inline]] inline float from_half(const std::uint8_t* from) {
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(load<std::uint16_t>(from))));
}

[[gnu::always_inline]] inline float sum_of(__m256 lanes) {
    __m128 sum = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps(lanes, 1));
    sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
    return _mm_cvtss_f32(_mm_add_ss(sum, _mm_movehdup_ps(sum)));
}

// Scales of the four sub-blocks, as 2^-8 of their value: sub-block s in lanes 2s and 2s + 1.
[[gnu::always_inline]] inline __m256 nvfp4_lane_scales(const std::uint8_t* block) {
    const __m128i spread = _mm_setr_epi8(0, -1, 0, -1, 1, -1, 1, -1, 2, -1, 2, -1, 3, -1, 3, -1);
    const __m128i codes = _mm_shuffle_epi8(_mm_cvtsi32_si128(load<std::int32_t>(block)), spread);
    const __m128i no_number = _mm_cmpeq_epi16(codes, _mm_set1_epi16(0x7F));
    const __m128i halves = _mm_slli_epi16(_mm_and_si128(codes, _mm_set1_epi16(0x7F)), 7);
    return _mm256_cvtph_ps(_mm_andnot_si128(no_number, halves));
}

// Half `at` of the token's 128 values.
[[gnu::always_inline]] inline __m256 add_nvfp4(__m256 sums, const std::uint8_t* block, const Words128& token,
                                               int at) {
    const __m256i values =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    const __m256i nibble = _mm256_set1_epi8(15);
    const __m256i ones = _mm256_set1_epi16(1);
    const __m256i codes = load_256(block + 4);
    const __m256i left = _mm256_shuffle_epi8(values, _mm256_and_si256(codes, nibble));
    const __m256i right = _mm256_shuffle_epi8(values, _mm256_and_si256(_mm256_srli_epi16(codes, 4), nibble));
    // Sums of four products of 24 and 128 fit 16 bits.
    const auto multiply = [&](const std::int8_t (&part)[2][64]) {
        return _mm256_madd_epi16(_mm256_add_epi16(_mm256_maddubs_epi16(left, load_256(part[0] + at * 32)),
                                                  _mm256_maddubs_epi16(right, load_256(part[1] + at * 32))),
                                 ones);
    };
    const __m256i whole = _mm256_add_epi32(_mm256_slli_epi32(multiply(token.high), 8), multiply(token.low));
    const __m256i products = _mm256_add_epi32(whole, load_256(token.minus_sum + at * 8));
    const __m256 scales = _mm256_mul_ps(nvfp4_lane_scales(block), _mm256_loadu_ps(token.scale + at * 8));
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(products), scales, sums);
}

template <int rows>
[[gnu::always_inline]] inline void multiply_nvfp4_rows(const std::uint8_t* block, std::size_t stride,
                                                       std::int64_t k, const Words128* token,
                                                       float* results) {
    __m256 sums[rows];
    for (__m256& sum : sums)
        sum = _mm256_setzero_ps();
    for (std::int64_t first = 0; first < k; first += 64, block += nvfp4_bytes) {
        const int at = first % 128 == 0 ? 0 : 1;
#pragma GCC unroll 4
        for (int row = 0; row < rows; ++row)
            sums[row] = add_nvfp4(sums[row], block + static_cast<std::size_t>(row) * stride, *token, at);
        token += at;
    }
    for (int row = 0; row < rows; ++row)
        results[row] = sum_of(sums[row]);
}

void multiply_nvfp4(const std::uint8_t* rows, std::size_t stride, std::int64_t count, std::int64_t k,
                    const void* prepared, float* results) {
    const auto* token = static_cast<const Words128*>(prepared);
    std::int64_t row = 0;
    for (; row + 2 <= count; row += 2)
        multiply_nvfp4_rows<2>(rows + static_cast<std::size_t>(row) * stride, stride, k, token,
                               results + row);
    if (row < count)
        multiply_nvfp4_rows<1>(rows + static_cast<std::size_t>(row) * stride, stride, k, token,
                               results + row);
}

// Sums of pairs of weights and values; of the j-th part, of which `at` is a half.
template <typename Weights> [[gnu::always_inline]] inline __m256i multiply_half(const Weights& weights) {
    const __m256i ones = _mm256_set1_epi16(1);
    // Two parts' sums of 43 * 127 twice each fit 16 bits.
    const __m256i first = _mm256_add_epi16(weights(0), weights(1));
    const __m256i second = _mm256_add_epi16(weights(2), weights(3));
    return _mm256_add_epi32(_mm256_madd_epi16(first, ones), _mm256_madd_epi16(second, ones));
}

// `codes`: 128 weights of two bits, four a byte, unsigned.
[[gnu::always_inline]] inline __m256i multiply_codes(__m256i codes, const Bytes256& token, int at) {
    return multiply_half([&](int j) {
        const __m256i code = _mm256_and_si256(_mm256_srli_epi16(codes, 2 * j), _mm256_set1_epi8(3));
        return _mm256_maddubs_epi16(code, load_256(token.part[j] + at * 32));
    });
}

void multiply_q2_0(const std::uint8_t* rows, std::size_t stride, std::int64_t count, std::int64_t k,
                   const void* prepared, float* results) {
    for (std::int64_t row = 0; row < count; ++row) {
        const std::uint8_t* block = rows + static_cast<std::size_t>(row) * stride;
        const auto* token = static_cast<const Bytes256*>(prepared);
        __m256 sums = _mm256_setzero_ps();
        for (std::int64_t first = 0; first < k; first += half, block += 2 * q2_0_bytes) {
            const int at = first % prepared_step == 0 ? 0 : 1;
            std::uint8_t rest[2 * q2_0_bytes] = {};
            const std::uint8_t* from = block;
            if (k - first < half) { // nothing is read beyond the row
                std::memcpy(rest, block, q2_0_bytes);
                from = rest;
            }
            const __m256i codes = _mm256_set_m128i(load_128(from + q2_0_bytes + 2), load_128(from + 2));
            const __m256 scales =
                _mm256_set_m128(_mm_set1_ps(from_half(from + q2_0_bytes)), _mm_set1_ps(from_half(from)));
            const __m256i products =
                _mm256_add_epi32(load_256(token->minus_sum + at * 8),
                                 multiply_codes(codes, *token, at)); // codes are values + 1
            sums = _mm256_fmadd_ps(_mm256_cvtepi32_ps(products),
                                   _mm256_mul_ps(scales, _mm256_loadu_ps(token->scale + at * 8)), sums);
            token += at;
        }
        results[row] = sum_of(sums);
    }
}

// The codes of 16 grid entries; `index` has a word each.
[[gnu::always_inline]] inline __m256i look_up(const std::uint16_t* grid, __m256i index) {
    const auto* base = reinterpret_cast<const int*>(grid);
    const __m256i even = _mm256_i32gather_epi32(base, _mm256_and_si256(index, _mm256_set1_epi32(0xFFFF)), 2);
    const __m256i odd = _mm256_i32gather_epi32(base, _mm256_srli_epi32(index, 16), 2);
    return _mm256_blend_epi16(even, _mm256_slli_epi32(odd, 16), 0xAA);
}

// The indices of 16 grid entries: low bytes at `low`, and three higher bits each in the four words of `high`.
[[gnu::always_inline]] inline __m256i iq1_s_index(const std::uint8_t* low, std::uint64_t high) {
    const __m256i fours = _mm256_setr_epi8(0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3, 4, 5, 4, 5, 4, 5,
                                           4, 5, 6, 7, 6, 7, 6, 7, 6, 7);
    const __m256i words = _mm256_shuffle_epi8(_mm256_set1_epi64x(static_cast<long long>(high)), fours);
    // Bits 0, 3, 6 and 9 move to bit 8; a product shifts to the left.
    const __m256i left = _mm256_mullo_epi16(words, _mm256_set1_epi64x(0x0000'0004'0020'0100));
    const __m256i right = _mm256_srli_epi16(words, 1);
    const __m256i bits = _mm256_and_si256(_mm256_blend_epi16(left, right, 0x88), _mm256_set1_epi16(0x700));
    return _mm256_or_si256(_mm256_cvtepu8_epi16(load_128(low)), bits);
}

void multiply_iq1_s(const std::uint8_t* rows, std::size_t stride, std::int64_t count, std::int64_t k,
                    const void* prepared, float* results) {
    const std::uint16_t* grid = grid_codes().iq1_s;
    const __m256i pairs = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    for (std::int64_t row = 0; row < count; ++row) {
        const std::uint8_t* block = rows + static_cast<std::size_t>(row) * stride;
        const auto* token = static_cast<const Bytes256*>(prepared);
        __m256 sums = _mm256_setzero_ps();
        for (std::int64_t first = 0; first < k; first += prepared_step, ++token, block += iq1_s_bytes) {
            const __m256 scale_of_block = _mm256_set1_ps(from_half(block));
            for (int at = 0; at < 2; ++at) {
                const std::uint8_t* low = block + 2 + at * 16;
                const auto high = load<std::uint64_t>(block + 34 + at * 8); // four words
                const __m256i codes = look_up(grid, iq1_s_index(low, high));
                const __m256i minus_sum = load_256(token->minus_sum + at * 8);
                const __m256 products =
                    _mm256_cvtepi32_ps(_mm256_add_epi32(minus_sum, multiply_codes(codes, *token, at)));
                const __m256i words =
                    _mm256_permutevar8x32_epi32(_mm256_castsi128_si256(_mm_cvtepu16_epi32(
                                                    _mm_cvtsi64_si128(static_cast<long long>(high)))),
                                                pairs);
                // The top bit is the sign of the shift by 1/8, the three below it are the scale.
                const __m256i sign = _mm256_slli_epi32(_mm256_srli_epi32(words, 15), 31);
                const __m256 shift =
                    _mm256_xor_ps(_mm256_castsi256_ps(sign), _mm256_set1_ps(-0.125F)); // of minus the sum
                const __m256i scale =
                    _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi32(words, 11), _mm256_set1_epi32(14)),
                                    _mm256_set1_epi32(1));
                const __m256 shifted = _mm256_fmadd_ps(_mm256_cvtepi32_ps(minus_sum), shift, products);
                const __m256 scales = _mm256_mul_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(scale), scale_of_block),
                                                    _mm256_loadu_ps(token->scale + at * 8));
                sums = _mm256_fmadd_ps(shifted, scales, sums);
            }
        }
        results[row] = sum_of(sums);
    }
}

// The eight sign bits of 16 grid entries, a word each; `packed` has seven of each of four from bit 32 on.
[[gnu::always_inline]] inline __m256i signs_of(__m256i packed) {
    const __m256i shifts = _mm256_setr_epi32(0, 7, 14, 21, 0, 7, 14, 21);
    const __m256i low = _mm256_srlv_epi32(
        _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(1, 1, 1, 1, 5, 5, 5, 5)), shifts);
    const __m256i high = _mm256_srlv_epi32(
        _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(3, 3, 3, 3, 7, 7, 7, 7)), shifts);
    const __m256i mask = _mm256_set1_epi32(127);
    const __m256i seven = _mm256_packus_epi32(_mm256_and_si256(low, mask), _mm256_and_si256(high, mask));
    // The eighth makes their number even.
    const __m256i odd = _mm256_setr_epi8(0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0, 1, 1, 0, 0, 1, 1, 0, 1, 0, 0,
                                         1, 1, 0, 0, 1, 0, 1, 1, 0);
    const __m256i nibble = _mm256_set1_epi16(15);
    const __m256i parity = _mm256_xor_si256(_mm256_shuffle_epi8(odd, _mm256_and_si256(seven, nibble)),
                                            _mm256_shuffle_epi8(odd, _mm256_srli_epi16(seven, 4)));
    return _mm256_or_si256(seven, _mm256_slli_epi16(parity, 7));
}

void multiply_iq2_xxs(const std::uint8_t* rows, std::size_t stride, std::int64_t count, std::int64_t k,
                      const void* prepared, float* results) {
    const std::uint16_t* grid = grid_codes().iq2_xxs;
    // Of each eight bytes, the first four as words.
    const __m256i widen =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, -1, 1, -1, 2, -1, 3, -1, 8, -1, 9, -1, 10, -1, 11, -1));
    const __m256i sizes =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(8, 25, 43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    for (std::int64_t row = 0; row < count; ++row) {
        const std::uint8_t* block = rows + static_cast<std::size_t>(row) * stride;
        const auto* token = static_cast<const Bytes256*>(prepared);
        __m256 sums = _mm256_setzero_ps();
        for (std::int64_t first = 0; first < k; first += prepared_step, ++token, block += iq2_xxs_bytes) {
            const __m256 scale_of_block = _mm256_set1_ps(0.25F * from_half(block));
            for (int at = 0; at < 2; ++at) {
                const std::uint8_t* from = block + 2 + at * 32;
                const __m256i packed = load_256(from);
                const __m256i codes = look_up(grid, _mm256_shuffle_epi8(packed, widen));
                const __m256i eight = signs_of(packed);
                // The low bytes' upper halves go to the high bytes: four signs a byte, as codes are.
                const __m256i signs = _mm256_or_si256(eight, _mm256_slli_epi16(eight, 4));
                const __m256i products = multiply_half([&](int j) {
                    const __m256i code =
                        _mm256_and_si256(_mm256_srli_epi16(codes, 2 * j), _mm256_set1_epi8(3));
                    const __m256i bit = _mm256_set1_epi8(static_cast<char>(1 << j));
                    const __m256i negative = _mm256_cmpeq_epi8(_mm256_and_si256(signs, bit), bit);
                    const __m256i values = _mm256_sign_epi8(load_256(token->part[j] + at * 32),
                                                            _mm256_or_si256(negative, _mm256_set1_epi8(1)));
                    return _mm256_maddubs_epi16(_mm256_shuffle_epi8(sizes, code), values);
                });
                __m256i scale = _mm256_srli_epi64(packed, 60);
                scale = _mm256_or_si256(scale, _mm256_slli_epi64(scale, 32));
                const __m256 scales =
                    _mm256_mul_ps(_mm256_add_ps(_mm256_cvtepi32_ps(scale), _mm256_set1_ps(0.5F)),
                                  _mm256_mul_ps(_mm256_loadu_ps(token->scale + at * 8), scale_of_block));
                sums = _mm256_fmadd_ps(_mm256_cvtepi32_ps(products), scales, sums);
            }
        }
        results[row] = sum_of(sums);
    }
}

} // namespace

std::size_t nvfp4_token_bytes(std::int64_t k) {
    return static_cast<std::size_t>((k + 127) / 128) * sizeof(Words128);
}

void prepare_nvfp4_token(const float* token, std::int64_t /*k*/, std::int64_t first, std::int64_t count,
                         void* prepared) {
    constexpr float largest_value = 127 * 256 + 127;
    constexpr float as_read = 128; // scales are read as 2^-8 of theirs, elements as twice theirs
    const __m256 no_sign = _mm256_castsi256_ps(_mm256_set1_epi32(INT32_MAX));
    const __m128i low_bytes = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, -1, -1, -1, -1, -1, -1, -1, -1);
    auto* to = static_cast<Words128*>(prepared) + first / 128;
    const float* end = token + first + count;
    for (const float* from = token + first; from < end; ++to) {
        std::memset(to, 0, sizeof *to);
        for (int group = 0; group < 8 && from < end; ++group, from += 16) {
            const __m256 values[2] = {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)};
            const __m256 largest =
                _mm256_max_ps(_mm256_and_ps(values[0], no_sign), _mm256_and_ps(values[1], no_sign));
            __m128 most = _mm_max_ps(_mm256_castps256_ps128(largest), _mm256_extractf128_ps(largest, 1));
            most = _mm_max_ps(most, _mm_movehl_ps(most, most));
            most = _mm_max_ss(most, _mm_movehdup_ps(most));
            const float scale = _mm_cvtss_f32(most) / largest_value;
            const __m256 inverse = _mm256_set1_ps(scale > 0 ? 1 / scale : 0.0F);
            __m256i sum = _mm256_setzero_si256();
            for (int part = 0; part < 2; ++part) {
                const __m256i whole = _mm256_cvtps_epi32(_mm256_mul_ps(values[part], inverse));
                sum = _mm256_add_epi32(sum, whole);
                const __m128i words =
                    _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
                const __m128i high = _mm_srai_epi16(_mm_add_epi16(words, _mm_set1_epi16(128)), 8);
                // The low byte of what is left is all of it.
                _mm_storel_epi64(reinterpret_cast<__m128i*>(to->high[part] + group * 8),
                                 _mm_shuffle_epi8(high, low_bytes));
                _mm_storel_epi64(reinterpret_cast<__m128i*>(to->low[part] + group * 8),
                                 _mm_shuffle_epi8(words, low_bytes));
            }
            // Lanes 0..3 of each part belong together, and 4..7.
            const __m128i pairs =
                _mm_hadd_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
            const __m128i both = _mm_hadd_epi32(pairs, pairs);
            to->minus_sum[2 * group] = -nvfp4_shift * _mm_extract_epi32(both, 0);
            to->minus_sum[2 * group + 1] = -nvfp4_shift * _mm_extract_epi32(both, 1);
            to->scale[2 * group] = to->scale[2 * group + 1] = scale * as_read;
        }
    }
}

std::size_t bytes_token_bytes(std::int64_t k) {
    return static_cast<std::size_t>((k + prepared_step - 1) / prepared_step) * sizeof(Bytes256);
}

void prepare_bytes_token(const float* token, std::int64_t /*k*/, std::int64_t first, std::int64_t count,
                         void* prepared) {
    auto* to = static_cast<Bytes256*>(prepared) + first / prepared_step;
    const float* end = token + first + count;
    const __m256 no_sign = _mm256_castsi256_ps(_mm256_set1_epi32(INT32_MAX));
    const __m256i gather =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    for (const float* from = token + first; from < end; ++to) {
        std::memset(to, 0, sizeof *to);
        for (int group = 0; group < 8 && from < end; ++group, from += 32) {
            __m256 values[4];
            __m256 largest = _mm256_setzero_ps();
            for (int i = 0; i < 4; ++i) {
                values[i] = _mm256_loadu_ps(from + static_cast<std::ptrdiff_t>(8) * i);
                largest = _mm256_max_ps(largest, _mm256_and_ps(values[i], no_sign));
            }
            __m128 most = _mm_max_ps(_mm256_castps256_ps128(largest), _mm256_extractf128_ps(largest, 1));
            most = _mm_max_ps(most, _mm_movehl_ps(most, most));
            most = _mm_max_ss(most, _mm_movehdup_ps(most));
            const float scale = _mm_cvtss_f32(most) / 127;
            const __m256 inverse = _mm256_set1_ps(scale > 0 ? 1 / scale : 0.0F);
            __m256i whole[4];
            for (int i = 0; i < 4; ++i)
                whole[i] = _mm256_cvtps_epi32(_mm256_mul_ps(values[i], inverse));
            // In order, but for what packing does to halves: undone by the permutation.
            __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(whole[0], whole[1]),
                                               _mm256_packs_epi32(whole[2], whole[3]));
            bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
            const __m256i sums =
                _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes), _mm256_set1_epi16(-1));
            const __m128i halves =
                _mm_hadd_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
            const __m128i both = _mm_hadd_epi32(halves, halves);
            to->minus_sum[2 * group] = _mm_extract_epi32(both, 0);
            to->minus_sum[2 * group + 1] = _mm_extract_epi32(both, 1);
            to->scale[2 * group] = to->scale[2 * group + 1] = scale;
            const __m256i parts = _mm256_shuffle_epi8(bytes, gather); // four bytes of each part, twice
            alignas(32) std::uint32_t four[8];
            _mm256_store_si256(reinterpret_cast<__m256i*>(four), parts);
            for (int j = 0; j < 4; ++j) {
                std::memcpy(to->part[j] + group * 8, &four[j], 4);
                std::memcpy(to->part[j] + group * 8 + 4, &four[4 + j], 4);
            }
        }
    }
}

const RowDot avx2_nvfp4{nvfp4_token_bytes, prepare_nvfp4_token, multiply_nvfp4};
const RowDot avx2_q2_0{bytes_token_bytes, prepare_bytes_token, multiply_q2_0};
const RowDot avx2_iq1_s{bytes_token_bytes, prepare_bytes_token, multiply_iq1_s};
const RowDot avx2_iq2_xxs{bytes_token_bytes, prepare_bytes_token, multiply_iq2_xxs};

} // namespace twofold
