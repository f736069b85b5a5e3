// Products of NVFP4 and of converted weights, and attention, by the kernel and by scalar.
#include "kernels/self_check.h"

#include "kernels/attention.h"
#include "kernels/nvfp4_decode.h"
#include "kernels/product.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace twofold {
namespace {

struct Operands {
    std::int64_t m;
    std::int64_t n;
    std::int64_t k;
    WeightRows weights;
    std::vector<std::uint8_t> bytes;
    std::vector<float> rows;
};

void copy_floats(const void* from, float* to, std::int64_t count) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
}

Operands random_operands(std::int64_t m, std::int64_t n, std::int64_t k, bool nvfp4, std::mt19937& random) {
    Operands made{.m = m, .n = n, .k = k, .weights = {}, .bytes = {}, .rows = {}};
    std::normal_distribution<float> normal;
    made.rows.resize(static_cast<std::size_t>(m * k));
    for (float& value : made.rows)
        value = normal(random);
    const std::size_t stride =
        nvfp4 ? static_cast<std::size_t>(k) / 64 * 36 : static_cast<std::size_t>(k) * 4;
    made.bytes.resize(stride * static_cast<std::size_t>(n));
    if (nvfp4) {
        for (std::size_t i = 0; i < made.bytes.size(); ++i)
            made.bytes[i] = static_cast<std::uint8_t>(i % 36 < 4 ? 0x28 + random() % 32 : random());
    } else {
        for (std::size_t i = 0; i < made.bytes.size(); i += 4) {
            const float value = normal(random);
            std::memcpy(&made.bytes[i], &value, sizeof value);
        }
    }
    made.weights = {.data = made.bytes.data(),
                    .stride = stride,
                    .count = n,
                    .k = k,
                    .block_weights = nvfp4 ? 64 : 1,
                    .block_bytes = nvfp4 ? 36U : 4U,
                    .nvfp4 = nvfp4,
                    .to_float = nvfp4 ? nvfp4_decode : copy_floats};
    return made;
}

std::vector<float> multiply(const Kernel& kernel, const Operands& given) {
    const auto n = static_cast<std::size_t>(given.n);
    std::vector<float> results(static_cast<std::size_t>(given.m) * n,
                               std::numeric_limits<float>::quiet_NaN());
    std::vector<std::byte> work(Product::work_size(kernel, given.m, given.n, given.k, 1));
    const Product product(kernel, given.weights,
                          {.data = reinterpret_cast<const std::byte*>(given.rows.data()),
                           .count = {given.m, 1, 1},
                           .stride = {static_cast<std::size_t>(given.k) * sizeof(float), 0, 0}},
                          {.data = reinterpret_cast<std::byte*>(results.data()),
                           .count = {given.m, 1, 1},
                           .stride = {n * sizeof(float), 0, 0}},
                          work.data(), 1);
    product.pack(0);
    product.begin();
    for (std::int64_t task = 0; task < product.task_count(); ++task)
        product.run(task, 0);
    product.end();
    return results;
}

// The scale of each result's rounding: the product of both operands' lengths.
double length(const float* values, std::int64_t count) {
    double sum = 0;
    for (std::int64_t i = 0; i < count; ++i)
        sum += static_cast<double>(values[i]) * values[i];
    return std::sqrt(sum);
}

double error_of(const Kernel& kernel, const Operands& given) {
    const std::vector<float> found = multiply(kernel, given);
    const std::vector<float> right = multiply(kernel_scalar, given);
    std::vector<float> weights(static_cast<std::size_t>(given.k));
    double worst = 0;
    for (std::int64_t j = 0; j < given.n; ++j) {
        given.weights.to_float(given.bytes.data() + static_cast<std::size_t>(j) * given.weights.stride,
                               weights.data(), given.k);
        const double weight_length = length(weights.data(), given.k);
        for (std::int64_t i = 0; i < given.m; ++i) {
            const auto at = static_cast<std::size_t>(i * given.n + j);
            const double error = std::abs(static_cast<double>(found[at]) - right[at]) /
                                 (weight_length * length(given.rows.data() + i * given.k, given.k));
            if (std::isnan(error))
                return error;
            worst = std::max(worst, error);
        }
    }
    return worst;
}

std::vector<float> attend(const Kernel& kernel, AttentionOperands operands) {
    std::vector<float> results(
        static_cast<std::size_t>(operands.tokens * operands.queries.heads * operands.value_size),
        std::numeric_limits<float>::quiet_NaN());
    operands.out = results.data();
    std::vector<std::byte> work(Attention::work_size(kernel, operands, 1));
    const Attention attention(kernel, operands, work.data(), 1);
    attention.scan(0);
    attention.begin();
    for (std::int64_t task = 0; task < attention.task_count(); ++task)
        attention.run(task, 0);
    attention.end();
    return results;
}

// Of a result's usual size: exponentials and sums in another order, or operands in two parts.
constexpr double attention_tolerance = 1e-3;

// Two heads that share keys, with scores bent by a cap: all that a kernel does for attention.
double attention_error(const Kernel& kernel, std::mt19937& random) {
    constexpr std::int64_t tokens = 19;
    constexpr std::int64_t cached = 300;
    constexpr std::int64_t size = 48;
    std::normal_distribution<float> normal;
    std::vector<float> queries(tokens * 2 * size);
    std::vector<float> keys(cached * size);
    std::vector<float> values(cached * size);
    for (std::vector<float>* of : {&queries, &keys, &values}) {
        for (float& value : *of)
            value = normal(random);
    }
    const auto rows = [](const std::vector<float>& from, std::int64_t heads) {
        const auto row = static_cast<std::size_t>(size) * sizeof(float);
        return HeadRows{.data = reinterpret_cast<const std::byte*>(from.data()),
                        .heads = heads,
                        .sequences = 1,
                        .stride = {static_cast<std::size_t>(heads) * row, row, 0},
                        .to_float = nullptr};
    };
    const AttentionOperands operands{.tokens = tokens,
                                     .cached = cached,
                                     .key_size = size,
                                     .value_size = size,
                                     .queries = rows(queries, 2),
                                     .keys = rows(keys, 1),
                                     .values = rows(values, 1),
                                     .mask = {},
                                     .scale = 0.3F,
                                     .softcap = 5};
    const std::vector<float> found = attend(kernel, operands);
    const std::vector<float> right = attend(kernel_scalar, operands);
    double worst = 0;
    for (std::size_t i = 0; i < right.size(); ++i) {
        const double error = std::abs(static_cast<double>(found[i]) - right[i]);
        if (std::isnan(error))
            return error;
        worst = std::max(worst, error);
    }
    const double size_of_all = length(right.data(), static_cast<std::int64_t>(right.size()));
    return worst * std::sqrt(static_cast<double>(right.size())) / size_of_all;
}

} // namespace

double kernel_error(const Kernel& kernel) {
    constexpr std::int64_t shapes[][3] = {{1, 1, 64}, {33, 65, 832}, {70, 31, 1600}};
    // The same operands each time.
    std::mt19937 random(7); // NOLINT(bugprone-random-generator-seed)
    double worst = 0;
    for (const auto& [m, n, k] : shapes) {
        for (const bool nvfp4 : {true, false}) {
            const double error = error_of(kernel, random_operands(m, n, k, nvfp4, random));
            if (std::isnan(error))
                return error;
            worst = std::max(worst, error);
        }
    }
    const double error = attention_error(kernel, random) * kernel_tolerance / attention_tolerance;
    return std::isnan(error) ? error : std::max(worst, error);
}

} // namespace twofold
