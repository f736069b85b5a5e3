// Plain sums; the draw walks down the vocabulary.
#include "speculative/chances.h"

#include <cmath>
#include <cstddef>
#include <numeric>

namespace twofold {

double uniform(std::mt19937_64& random) {
    return static_cast<double>(random() >> 11) * 0x1.0p-53;
}

bool normalise(std::vector<double>& weights) {
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    if (!(sum > 0) || !std::isfinite(sum))
        return false;
    for (double& weight : weights)
        weight /= sum;
    return true;
}

std::int32_t draw(const std::vector<double>& chances, std::mt19937_64& random) {
    double left = uniform(random);
    std::size_t last = 0;
    for (std::size_t i = 0; i < chances.size(); ++i) {
        if (chances[i] <= 0)
            continue;
        last = i;
        left -= chances[i];
        if (left < 0)
            break;
    }
    return static_cast<std::int32_t>(last);
}

} // namespace twofold
