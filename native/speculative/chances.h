// Distributions over a vocabulary: scaling to a sum of 1, and drawing.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace twofold {

// From [0, 1).
double uniform(std::mt19937_64& random);
// Scales to a sum of 1; false if nothing is left, or it is no number.
bool normalise(std::vector<double>& weights);
// `chances` sum to 1.
std::int32_t draw(const std::vector<double>& chances, std::mt19937_64& random);

} // namespace twofold
