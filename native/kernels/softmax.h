// Softmax over a row of scores, in vectors as wide as the including file's instruction set has them.
#pragma once

#include <cstdint>
#include <cstring>

namespace twofold {
namespace {

#if defined(__AVX512F__)
constexpr int score_lanes = 16;
#elif defined(__AVX2__)
constexpr int score_lanes = 8;
#else
constexpr int score_lanes = 4;
#endif

using Scores = float __attribute__((vector_size(score_lanes * sizeof(float))));
using ScoreBits = std::uint32_t __attribute__((vector_size(score_lanes * sizeof(float))));

inline Scores load_scores(const float* from) {
    Scores values;
    std::memcpy(&values, from, sizeof values);
    return values;
}

// e^x for x of 0 at most, to two units in the last place; below -87, where FP32 ends, 0.
[[gnu::always_inline]] inline Scores exponential(Scores x) {
    constexpr float magic = 12582912.0F; // 1.5 * 2^23: adding it leaves the nearest whole number below
    const Scores shifted = x * 1.44269504F + magic;
    const Scores whole = shifted - magic;
    // The rest, with ln 2 in two parts so that no bits are lost.
    const Scores rest = (x - whole * 0.693359375F) + whole * 2.12194440e-4F;
    Scores power = rest * 1.9875691500e-4F + 1.3981999507e-3F;
    power = power * rest + 8.3334519073e-3F;
    power = power * rest + 4.1665795894e-2F;
    power = power * rest + 1.6666665459e-1F;
    power = power * rest + 5.0000001201e-1F;
    power = power * rest * rest + rest + 1.0F;
    ScoreBits exponent;
    std::memcpy(&exponent, &shifted, sizeof exponent);
    ScoreBits bits;
    std::memcpy(&bits, &power, sizeof bits);
    bits += exponent << 23;
    std::memcpy(&power, &bits, sizeof power);
    return x < -87.0F ? Scores{} : power;
}

float scale_scores(float* scores, const float* bias, std::int64_t count, float scale, float softcap) {
    Scores largest = Scores{} - __builtin_inff();
    for (std::int64_t i = 0; i < count; i += score_lanes) {
        Scores values = load_scores(scores + i) * scale;
        if (softcap != 0.0F) {
            const Scores size = values < 0.0F ? values : -values;
            const Scores power = exponential(size * 2.0F);
            const Scores bent = softcap * (1.0F - power) / (1.0F + power); // of tanh(|x|)
            values = values < 0.0F ? -bent : bent;
        }
        if (bias)
            values += load_scores(bias + i);
        std::memcpy(scores + i, &values, sizeof values);
        largest = values > largest ? values : largest;
    }
    float found = largest[0];
    for (int lane = 1; lane < score_lanes; ++lane)
        found = largest[lane] > found ? largest[lane] : found;
    return found;
}

float exponentiate(float* scores, std::int64_t count, float largest) {
    Scores sums{};
    for (std::int64_t i = 0; i < count; i += score_lanes) {
        const Scores values = exponential(load_scores(scores + i) - largest);
        std::memcpy(scores + i, &values, sizeof values);
        sums += values;
    }
    float sum = 0;
    for (int lane = 0; lane < score_lanes; ++lane)
        sum += sums[lane];
    return sum;
}

} // namespace
} // namespace twofold
