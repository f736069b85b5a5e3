// Stores small integers, times a scale, as FP32: what conversions of quantised weights end with.
#pragma once

#include <immintrin.h>

#include <cstring>

#define TWOFOLD_AVX2 __attribute__((target("avx2,f16c")))

namespace twofold {

TWOFOLD_AVX2 inline float from_half(std::uint16_t bits) {
    return _cvtsh_ss(bits);
}

template <typename Word> inline Word load(const void* from) {
    Word word;
    std::memcpy(&word, from, sizeof word);
    return word;
}

// Eight FP32 from eight signed bytes.
TWOFOLD_AVX2 inline __m256 floats_of(__m128i bytes) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
}

} // namespace twofold
