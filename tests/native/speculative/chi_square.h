// Pearson's test of counts against a distribution.
#pragma once

#include <cmath>
#include <vector>

namespace twofold::test {

struct ChiSquare {
    double statistic = 0;
    double critical = 0; // exceeded by chance once in 10,000 samples
    int degrees = 0;
    [[nodiscard]] bool fits() const { return statistic <= critical; }
};

// Cells of fewer than five expected counts are pooled; a count where none can be is an infinite statistic.
inline ChiSquare chi_square(const std::vector<double>& chances, const std::vector<int>& counts) {
    double total = 0;
    for (const int count : counts)
        total += count;
    ChiSquare result;
    double pooled_expected = 0;
    double pooled_count = 0;
    int cells = 0;
    const auto add = [&](double expected, double count) {
        result.statistic += (count - expected) * (count - expected) / expected;
        ++cells;
    };
    for (std::size_t i = 0; i < chances.size(); ++i) {
        const double expected = chances[i] * total;
        if (expected < 1e-9 && counts[i] > 0)
            result.statistic = HUGE_VAL;
        else if (expected >= 5)
            add(expected, counts[i]);
        else {
            pooled_expected += expected;
            pooled_count += counts[i];
        }
    }
    if (pooled_expected >= 5)
        add(pooled_expected, pooled_count);
    result.degrees = cells > 1 ? cells - 1 : 1;
    // Wilson and Hilferty's cube root; 3.719 is the normal quantile.
    const double spread = 2.0 / (9.0 * result.degrees);
    result.critical = result.degrees * std::pow(1 - spread + 3.719 * std::sqrt(spread), 3);
    return result;
}

} // namespace twofold::test
