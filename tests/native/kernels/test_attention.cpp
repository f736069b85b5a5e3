// Attention in tiles equals attention in double precision, for every kernel that runs here.
#include "kernels/attention.h"
#include "kernels/choice.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

using namespace twofold;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr std::uint16_t hidden = 0xFC00;

float half_to_float(std::uint16_t half) {
    if (half == hidden)
        return -infinity;
    const int exponent = half >> 10 & 31;
    const float fraction = static_cast<float>(half & 1023) / 1024;
    const float size = exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, exponent - 15);
    return (half & 0x8000) != 0 ? -size : size;
}

void halves_to_floats(const void* from, float* to, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i)
        to[i] = half_to_float(static_cast<const std::uint16_t*>(from)[i]);
}

// The upper halves of FP32 numbers: a format of the cache that has to be converted.
void upper_halves_to_floats(const void* from, float* to, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
        const std::uint32_t bits = std::uint32_t{static_cast<const std::uint16_t*>(from)[i]} << 16;
        std::memcpy(to + i, &bits, sizeof bits);
    }
}

// Those that run here, and one of them that is made to take BF16 operands in two parts.
std::vector<Kernel> attending_kernels() {
    std::vector<Kernel> found;
    for (const Kernel* kernel : usable_kernels())
        found.push_back(*kernel);
    Kernel split = found.front();
    split.name = "in two parts";
    split.attention = nullptr;
    found.push_back(split);
    return found;
}

struct Shape {
    std::int64_t tokens;
    std::int64_t cached;
    std::int64_t heads;
    std::int64_t key_heads;
    std::int64_t sequences;
    std::int64_t key_size;
    std::int64_t value_size;
};

enum class Mask { none, causal, window, sparse, blind };

struct Case {
    Shape shape;
    std::vector<float> queries; // [token][head][sequence][key_size]: not the order of the results
    std::vector<float> keys;    // [sequence][cached][head][key_size]
    std::vector<float> values;
    std::vector<std::uint16_t> packed_keys; // the same, as upper halves; empty where keys are FP32
    std::vector<std::uint16_t> packed_values;
    std::vector<std::uint16_t> mask; // [sequence][token][cached]
    std::vector<float> sinks;
    float scale = 0;
    float softcap = 0;
    float max_bias = 0;
};

Case make_case(const Shape& shape, Mask kind, unsigned seed, bool packed = false) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    Case made{.shape = shape,
              .queries = std::vector<float>(
                  static_cast<std::size_t>(shape.tokens * shape.heads * shape.sequences * shape.key_size)),
              .keys = std::vector<float>(static_cast<std::size_t>(shape.sequences * shape.cached *
                                                                  shape.key_heads * shape.key_size)),
              .values = std::vector<float>(static_cast<std::size_t>(shape.sequences * shape.cached *
                                                                    shape.key_heads * shape.value_size)),
              .packed_keys = {},
              .packed_values = {},
              .mask = {},
              .sinks = {},
              .scale = 2 / std::sqrt(static_cast<float>(shape.key_size))};
    for (std::vector<float>* values : {&made.queries, &made.keys, &made.values})
        std::ranges::generate(*values, [&] { return normal(random); });
    if (packed) {
        const auto pack = [](std::vector<float>& values) {
            std::vector<std::uint16_t> halves;
            for (float& value : values) {
                std::uint32_t bits = 0;
                std::memcpy(&bits, &value, sizeof bits);
                halves.push_back(static_cast<std::uint16_t>(bits >> 16));
                upper_halves_to_floats(&halves.back(), &value, 1);
            }
            return halves;
        };
        made.packed_keys = pack(made.keys);
        made.packed_values = pack(made.values);
    }
    if (kind == Mask::none)
        return made;
    const std::int64_t past = shape.cached - shape.tokens;
    for (std::int64_t sequence = 0; sequence < shape.sequences; ++sequence) {
        for (std::int64_t token = 0; token < shape.tokens; ++token) {
            for (std::int64_t key = 0; key < shape.cached; ++key) {
                bool seen = key <= past + token;
                if (kind == Mask::window)
                    seen = seen && key > past + token - 70;
                if (kind == Mask::sparse)
                    seen = random() % 8 == 0;
                if (kind == Mask::blind)
                    seen = seen && token % 3 != 0;
                made.mask.push_back(seen ? 0 : hidden);
            }
        }
    }
    return made;
}

std::vector<float> run(const Kernel& kernel, Case& given, int thread_count, std::size_t misalign = 0) {
    const Shape& shape = given.shape;
    std::vector<float> out(
        static_cast<std::size_t>(shape.sequences * shape.tokens * shape.heads * shape.value_size),
        std::numeric_limits<float>::quiet_NaN());
    const auto bytes = [](std::int64_t count, bool packed = false) {
        return static_cast<std::size_t>(count) * (packed ? 2 : 4);
    };
    const auto cache = [&](const std::vector<float>& values, const std::vector<std::uint16_t>& packed,
                           std::int64_t size) {
        const bool halves = !packed.empty();
        return HeadRows{.data = halves ? reinterpret_cast<const std::byte*>(packed.data())
                                       : reinterpret_cast<const std::byte*>(values.data()),
                        .heads = shape.key_heads,
                        .sequences = shape.sequences,
                        .stride = {bytes(shape.key_heads * size, halves), bytes(size, halves),
                                   bytes(shape.cached * shape.key_heads * size, halves)},
                        .to_float = halves ? upper_halves_to_floats : nullptr};
    };
    AttentionOperands operands{
        .tokens = shape.tokens,
        .cached = shape.cached,
        .key_size = shape.key_size,
        .value_size = shape.value_size,
        .queries = {.data = reinterpret_cast<const std::byte*>(given.queries.data()),
                    .heads = shape.heads,
                    .sequences = shape.sequences,
                    .stride = {bytes(shape.heads * shape.sequences * shape.key_size),
                               bytes(shape.sequences * shape.key_size), bytes(shape.key_size)}},
        .keys = cache(given.keys, given.packed_keys, shape.key_size),
        .values = cache(given.values, given.packed_values, shape.value_size),
        .mask = {},
        .sinks = given.sinks.empty() ? nullptr : given.sinks.data(),
        .scale = given.scale,
        .softcap = given.softcap,
        .max_bias = given.max_bias,
        .out = out.data()};
    if (!given.mask.empty())
        operands.mask = {.data = reinterpret_cast<const std::byte*>(given.mask.data()),
                         .heads = 1,
                         .sequences = shape.sequences,
                         .stride = {static_cast<std::size_t>(shape.cached) * 2, 0,
                                    static_cast<std::size_t>(shape.tokens * shape.cached) * 2},
                         .to_float = halves_to_floats};
    std::vector<std::byte> work(Attention::work_size(kernel, operands, thread_count) + misalign);
    std::barrier scanned(thread_count);
    std::atomic<std::int64_t> next{0};
    const auto work_on = [&](int thread) {
        const Attention attention(kernel, operands, work.data() + misalign, thread_count);
        attention.scan(thread);
        scanned.arrive_and_wait();
        attention.begin();
        for (std::int64_t task = next++; task < attention.task_count(); task = next++)
            attention.run(task, thread);
        attention.end();
    };
    std::vector<std::thread> threads;
    for (int thread = 1; thread < thread_count; ++thread)
        threads.emplace_back(work_on, thread);
    work_on(0);
    for (std::thread& thread : threads)
        thread.join();
    return out;
}

double slope(std::int64_t head, std::int64_t heads, double max_bias) {
    if (max_bias == 0)
        return 1;
    std::int64_t regular = 1;
    while (regular * 2 <= heads)
        regular *= 2;
    return head < regular
               ? std::pow(2, -max_bias * static_cast<double>(head + 1) / static_cast<double>(regular))
               : std::pow(2, -max_bias / 2 * static_cast<double>(2 * (head - regular) + 1) /
                                 static_cast<double>(regular));
}

void expect_right(const Case& given, const std::vector<float>& found) {
    const auto& [tokens, cached, heads, key_heads, sequences, key_size, value_size] = given.shape;
    for (std::int64_t sequence = 0; sequence < sequences; ++sequence) {
        for (std::int64_t token = 0; token < tokens; ++token) {
            for (std::int64_t head = 0; head < heads; ++head) {
                const std::int64_t key_head = head / (heads / key_heads);
                std::vector<double> weights;
                double total =
                    given.sinks.empty()
                        ? 0.0
                        : std::exp(static_cast<double>(given.sinks[static_cast<std::size_t>(head)]));
                for (std::int64_t key = 0; key < cached; ++key) {
                    double score = 0;
                    const float* query = &given.queries[static_cast<std::size_t>(
                        ((token * heads + head) * sequences + sequence) * key_size)];
                    const float* row = &given.keys[static_cast<std::size_t>(
                        ((sequence * cached + key) * key_heads + key_head) * key_size)];
                    for (std::int64_t i = 0; i < key_size; ++i)
                        score += static_cast<double>(query[i]) * static_cast<double>(row[i]);
                    score *= static_cast<double>(given.scale);
                    if (given.softcap != 0)
                        score = static_cast<double>(given.softcap) *
                                std::tanh(score / static_cast<double>(given.softcap));
                    if (!given.mask.empty())
                        score += slope(head, heads, static_cast<double>(given.max_bias)) *
                                 static_cast<double>(half_to_float(given.mask[static_cast<std::size_t>(
                                     (sequence * tokens + token) * cached + key)]));
                    weights.push_back(std::exp(score));
                    total += weights.back();
                }
                for (std::int64_t i = 0; i < value_size; ++i) {
                    double sum = 0;
                    double size = 0;
                    for (std::int64_t key = 0; key < cached; ++key) {
                        const double value =
                            weights[static_cast<std::size_t>(key)] *
                            given.values[static_cast<std::size_t>(
                                ((sequence * cached + key) * key_heads + key_head) * value_size + i)];
                        sum += value;
                        size += std::abs(value);
                    }
                    const double right = total == 0 ? 0 : sum / total;
                    const double bound = total == 0 ? 0 : size / total;
                    const auto index = static_cast<std::size_t>(
                        ((sequence * tokens + token) * heads + head) * value_size + i);
                    // Sums and exponentials of FP32; two parts of BF16 keep 16 bits.
                    const double error = std::abs(static_cast<double>(found[index]) - right);
                    if (!(error <= bound * 4e-5)) {
                        CAPTURE(sequence);
                        CAPTURE(token);
                        CAPTURE(head);
                        CAPTURE(i);
                        CAPTURE(right);
                        CAPTURE(found[index]);
                        CHECK(error <= bound * 4e-5);
                        return;
                    }
                }
            }
        }
    }
    CHECK(true);
}

constexpr Shape shapes[] = {
    {1, 1, 1, 1, 1, 8, 8},        {5, 40, 2, 1, 1, 64, 64},   {33, 33, 3, 3, 1, 16, 24},
    {70, 300, 4, 2, 1, 64, 128},  {20, 256, 6, 2, 1, 80, 72}, {40, 600, 2, 2, 1, 24, 33},
    {17, 90, 4, 2, 2, 32, 32},    {19, 130, 4, 1, 3, 32, 16}, {100, 520, 8, 1, 1, 16, 16},
    {34, 1030, 1, 1, 1, 256, 64},
};

} // namespace

TEST_CASE("every kernel equals double precision over shapes and masks") {
    for (const Kernel& kernel : attending_kernels()) {
        CAPTURE(std::string(kernel.name));
        unsigned seed = 1;
        for (const Shape& shape : shapes) {
            CAPTURE(shape.tokens);
            CAPTURE(shape.cached);
            for (const Mask mask : {Mask::none, Mask::causal, Mask::window, Mask::sparse}) {
                CAPTURE(static_cast<int>(mask));
                ++seed;
                Case given = make_case(shape, mask, seed, seed % 2 == 0);
                expect_right(given, run(kernel, given, 1, seed % 7));
            }
        }
    }
}

TEST_CASE("sinks, soft caps and ALiBi's slopes enter as they should") {
    for (const Kernel& kernel : attending_kernels()) {
        CAPTURE(std::string(kernel.name));
        Case given = make_case({30, 300, 6, 2, 1, 64, 32}, Mask::causal, 5);
        given.sinks = {0.5F, -3, 2, 8, -30, 0};
        expect_right(given, run(kernel, given, 2));
        given.softcap = 3;
        expect_right(given, run(kernel, given, 1));
        given.sinks.clear();
        given.softcap = 0;
        given.max_bias = 8;
        for (std::size_t i = 0; i < given.mask.size(); ++i) {
            if (given.mask[i] != hidden) // some distances: -1 to -31/16
                given.mask[i] = static_cast<std::uint16_t>(0xBC00 + i % 16 * 64);
        }
        expect_right(given, run(kernel, given, 1));
    }
}

TEST_CASE("a token that sees no key gets zeros, and no other token notices") {
    for (const Kernel& kernel : attending_kernels()) {
        CAPTURE(std::string(kernel.name));
        Case given = make_case({50, 300, 2, 1, 1, 32, 32}, Mask::blind, 2);
        const std::vector<float> found = run(kernel, given, 1);
        expect_right(given, found);
        for (std::size_t i = 0; i < 2 * 32; ++i)
            CHECK(found[i] == 0);
    }
}

TEST_CASE("scores that are large or far apart do not overflow") {
    for (const Kernel& kernel : attending_kernels()) {
        CAPTURE(std::string(kernel.name));
        Case given = make_case({40, 400, 2, 2, 1, 32, 32}, Mask::causal, 8);
        for (float& value : given.keys)
            value *= 64;
        for (float& value : given.queries)
            value *= 64;
        for (const float value : run(kernel, given, 1))
            REQUIRE(std::isfinite(value));
    }
}

TEST_CASE("threads, addresses and later tokens change no bit") {
    for (const Kernel& kernel : attending_kernels()) {
        CAPTURE(std::string(kernel.name));
        Case given = make_case({130, 600, 4, 2, 1, 64, 64}, Mask::causal, 3);
        const std::vector<float> alone = run(kernel, given, 1);
        CHECK(run(kernel, given, 3, 5) == alone);
        CHECK(run(kernel, given, 8) == alone);
        Case fewer = given;
        fewer.shape.tokens = 61;
        const std::vector<float> part = run(kernel, fewer, 2);
        CHECK(std::equal(part.begin(), part.end(), alone.begin()));
    }
}

TEST_CASE("what is not a number reaches the results of its token and no other") {
    for (const Kernel& kernel : attending_kernels()) {
        CAPTURE(std::string(kernel.name));
        Case given = make_case({40, 300, 1, 1, 1, 32, 32}, Mask::causal, 3);
        given.queries[7 * 32 + 5] = std::numeric_limits<float>::quiet_NaN();
        const std::vector<float> found = run(kernel, given, 1);
        for (std::size_t i = 0; i < found.size(); ++i)
            REQUIRE(std::isnan(found[i]) == (i / 32 == 7));
    }
}
