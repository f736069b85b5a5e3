// How a token's values lie once prepared; plain data, shared by files for different instruction sets.
#pragma once

#include <cstddef>
#include <cstdint>

namespace twofold {

// 256 values in 8 bits, for weights that lie four to a byte: part j holds values 4b + j. A lane has 16
// consecutive values; pairs of lanes share a scale.
struct Bytes256 {
    std::int8_t part[4][64];
    float scale[16];
    std::int32_t minus_sum[16]; // of the lane's values
};

inline constexpr std::size_t prepared_alignment = 64;

// 128 values in 16 bits, for two NVFP4 blocks: 256 * high + low, of the first eight of each 16 and of the
// last eight. A lane has values 0..3 and 8..11 of 16, or the others; all 16 share a scale.
struct Words128 {
    std::int8_t high[2][64];
    std::int8_t low[2][64];
    float scale[16];            // times what scales and elements lack as they are read
    std::int32_t minus_sum[16]; // of the lane's values, times nvfp4_shift
};

// Twice E2M1's values and this are whole numbers from 0 to 24.
inline constexpr int nvfp4_shift = 12;

// Entries of ggml's grids, eight values of two bits each.
struct GridCodes {
    // Entries are gathered with what follows them, which must exist.
    alignas(64) std::uint16_t iq2_xxs[256]; // value: 8, 25 or 43
    alignas(64) std::uint16_t iq1_s[2048];  // value + 1
    alignas(64) std::uint8_t signs[128];    // seven bits with the eighth that makes their number even
};
const GridCodes& grid_codes();

#if defined(__x86_64__)
// In row_dot_avx2.cpp; see RowDot. NVFP4's are Words128, one for each 128 values.
std::size_t nvfp4_token_bytes(std::int64_t k);
void prepare_nvfp4_token(const float* token, std::int64_t k, std::int64_t first, std::int64_t count,
                         void* prepared);
// Bytes256, one for each 256 values.
std::size_t bytes_token_bytes(std::int64_t k);
void prepare_bytes_token(const float* token, std::int64_t k, std::int64_t first, std::int64_t count,
                         void* prepared);
#endif

} // namespace twofold
