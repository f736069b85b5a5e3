// Every kernel that runs here computes what scalar does, for all shapes, strides, alignments and threads.
#include "kernels/choice.h"
#include "kernels/nvfp4_decode.h"
#include "kernels/product.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <thread>
#include <vector>

using namespace twofold;

namespace {

constexpr float untouched = -12345.0F;

struct Shape {
    std::int64_t m;
    std::int64_t n;
    std::int64_t k;
};

// FP32 weights as a format of their own: what a converted type looks like to a kernel.
void copy_floats(const void* from, float* to, std::int64_t count) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
}

struct Case {
    Shape shape;
    std::vector<std::uint8_t> weights;
    std::size_t weight_stride;
    std::vector<float> weight_values; // n x k, as decoded
    std::vector<float> rows;          // m x row_stride
    std::int64_t row_stride;
    bool nvfp4;
};

// `slack`: bytes between rows of weights and, as floats, between rows of activations.
Case make_case(const Shape& shape, bool nvfp4, std::size_t slack, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    Case made{.shape = shape,
              .weights = {},
              .weight_stride = 0,
              .weight_values = {},
              .rows = {},
              .row_stride = shape.k + static_cast<std::int64_t>(slack),
              .nvfp4 = nvfp4};
    const auto n = static_cast<std::size_t>(shape.n);
    const auto k = static_cast<std::size_t>(shape.k);
    const std::size_t row_bytes = nvfp4 ? k / 64 * 36 : k * sizeof(float);
    made.weight_stride = row_bytes + (nvfp4 ? slack : slack * sizeof(float));
    made.weights.resize(made.weight_stride * n);
    made.weight_values.resize(n * k);
    for (std::size_t row = 0; row < n; ++row) {
        std::uint8_t* bytes = made.weights.data() + row * made.weight_stride;
        float* values = made.weight_values.data() + row * k;
        if (nvfp4) {
            for (std::size_t i = 0; i < row_bytes; ++i)
                bytes[i] = static_cast<std::uint8_t>(random());
            for (std::size_t block = 0; block < k / 64; ++block) {
                for (std::size_t s = 0; s < 4; ++s) // mostly ordinary scales, and now and then any
                    bytes[block * 36 + s] =
                        static_cast<std::uint8_t>(random() % 16 == 0 ? random() % 128 : 0x30 + random() % 16);
            }
            nvfp4_decode(bytes, values, shape.k);
        } else {
            for (std::size_t i = 0; i < k; ++i)
                values[i] = normal(random);
            std::memcpy(bytes, values, row_bytes);
        }
    }
    made.rows.resize(static_cast<std::size_t>(shape.m * made.row_stride));
    for (float& value : made.rows)
        value = normal(random);
    return made;
}

std::vector<float> run(const Kernel& kernel, const Case& given, int thread_count, std::size_t misalign = 0,
                       std::int64_t result_slack = 0, Activations activations = Activations::bf16) {
    const auto& [m, n, k] = given.shape;
    const std::int64_t stride = n + result_slack;
    std::vector<float> results(static_cast<std::size_t>(m * stride), untouched);
    std::vector<std::byte> work(Product::work_size(kernel, m, n, k, thread_count) + misalign);
    WeightRows weights{.data = given.weights.data(),
                       .stride = given.weight_stride,
                       .count = n,
                       .k = k,
                       .block_weights = given.nvfp4 ? 64 : 1,
                       .block_bytes = given.nvfp4 ? 36U : 4U,
                       .nvfp4 = given.nvfp4,
                       .to_float = given.nvfp4 ? nvfp4_decode : copy_floats};
    FloatRows<const std::byte> rows{
        .data = reinterpret_cast<const std::byte*>(given.rows.data()),
        .count = {m, 1, 1},
        .stride = {static_cast<std::size_t>(given.row_stride) * sizeof(float), 0, 0}};
    FloatRows<std::byte> out{.data = reinterpret_cast<std::byte*>(results.data()),
                             .count = {m, 1, 1},
                             .stride = {static_cast<std::size_t>(stride) * sizeof(float), 0, 0}};
    std::barrier packed(thread_count);
    std::atomic<std::int64_t> next{0};
    const auto work_on = [&](int thread) {
        const Product product(kernel, weights, rows, out, work.data() + misalign, thread_count, activations);
        product.pack(thread);
        packed.arrive_and_wait();
        product.begin();
        for (std::int64_t task = next++; task < product.task_count(); task = next++)
            product.run(task, thread);
        product.end();
    };
    std::vector<std::thread> threads;
    for (int thread = 1; thread < thread_count; ++thread)
        threads.emplace_back(work_on, thread);
    work_on(0);
    for (std::thread& thread : threads)
        thread.join();

    for (std::int64_t row = 0; row < m; ++row) {
        for (std::int64_t i = n; i < stride; ++i) // nothing is written beyond a row
            REQUIRE(results[static_cast<std::size_t>(row * stride + i)] == untouched);
    }
    std::vector<float> compact;
    for (std::int64_t row = 0; row < m; ++row)
        compact.insert(compact.end(), results.begin() + row * stride, results.begin() + row * stride + n);
    return compact;
}

float bf16(float value) {
    // Adding and subtracting 2^16 times the number's own power of two drops 16 bits, to nearest even.
    if (value == 0)
        return 0;
    const double shift = std::ldexp(1.5, std::ilogb(value) + 52 - 7);
    return static_cast<float>((static_cast<double>(value) + shift) - shift);
}

// The product in double precision, and for each result the sum of magnitudes that its rounding scales with.
void expect_right(const Case& given, const std::vector<float>& found) {
    const auto& [m, n, k] = given.shape;
    for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
            double sum = 0;
            double size = 0;
            for (std::int64_t x = 0; x < k; ++x) {
                const double product = static_cast<double>(bf16(
                                           given.rows[static_cast<std::size_t>(i * given.row_stride + x)])) *
                                       bf16(given.weight_values[static_cast<std::size_t>(j * k + x)]);
                sum += product;
                size += std::abs(product);
            }
            const double error = std::abs(found[static_cast<std::size_t>(i * n + j)] - sum);
            if (!(error <= 1e-6 * size)) {
                CAPTURE(i);
                CAPTURE(j);
                CHECK(error <= 1e-6 * size);
                return;
            }
        }
    }
    CHECK(true);
}

} // namespace

TEST_CASE("every kernel equals double precision over shapes, strides and alignments") {
    const Shape shapes[] = {{1, 1, 64},    {1, 33, 128},  {2, 31, 64},    {7, 5, 192},    {13, 32, 64},
                            {15, 17, 576}, {16, 64, 832}, {33, 47, 1088}, {64, 96, 512},  {31, 16, 1536},
                            {97, 8, 256},  {40, 129, 64}, {530, 3, 128},  {130, 290, 192}};
    for (const Kernel* kernel : usable_kernels()) {
        CAPTURE(kernel->name);
        unsigned seed = 1;
        for (const Shape& shape : shapes) {
            CAPTURE(shape.m);
            CAPTURE(shape.n);
            CAPTURE(shape.k);
            for (const bool nvfp4 : {true, false}) {
                const std::size_t slack = seed % 3 * 4;
                const Case given = make_case(shape, nvfp4, slack, seed++);
                expect_right(given, run(*kernel, given, 1, seed % 7, seed % 5));
            }
        }
    }
}

TEST_CASE("K need not be a multiple of anything for formats without blocks") {
    for (const Kernel* kernel : usable_kernels()) {
        CAPTURE(kernel->name);
        for (const std::int64_t k : {1, 2, 31, 33, 65, 577, 769}) {
            CAPTURE(k);
            const Case given = make_case({35, 18, k}, false, 0, static_cast<unsigned>(k));
            expect_right(given, run(*kernel, given, 1));
        }
    }
}

TEST_CASE("threads, addresses and other rows change no bit") {
    for (const Kernel* kernel : usable_kernels()) {
        CAPTURE(kernel->name);
        const Case given = make_case({150, 100, 1152}, true, 4, 5);
        const std::vector<float> alone = run(*kernel, given, 1);
        CHECK(run(*kernel, given, 3, 5) == alone);
        Case moved = given;
        moved.weights.insert(moved.weights.begin(), 3, 0);
        moved.weights.erase(moved.weights.begin(), moved.weights.begin() + 3);
        CHECK(run(*kernel, moved, 2, 1, 7) == alone);
        Case fewer = given;
        fewer.shape.m = 61;
        const std::vector<float> part = run(*kernel, fewer, 2);
        CHECK(std::equal(part.begin(), part.end(), alone.begin()));
    }
}

TEST_CASE("every pair of a scale and a code decodes exactly") {
    for (const Kernel* kernel : usable_kernels()) {
        CAPTURE(kernel->name);
        // Row r holds all 16 codes under scale r; the identity picks each weight out.
        Case given = make_case({64, 256, 64}, true, 0, 1);
        for (std::size_t scale = 0; scale < 256; ++scale) {
            std::uint8_t* block = given.weights.data() + scale * given.weight_stride;
            std::fill_n(block, 4, static_cast<std::uint8_t>(scale & 0x7F));
            for (std::size_t i = 0; i < 32; ++i)
                block[4 + i] = static_cast<std::uint8_t>((i % 8 * 2 + 1) << 4 | i % 8 * 2);
            nvfp4_decode(block, given.weight_values.data() + scale * 64, 64);
        }
        for (std::size_t i = 0; i < 64; ++i) {
            for (std::size_t j = 0; j < 64; ++j)
                given.rows[i * 64 + j] = i == j ? 1.0F : 0.0F;
        }
        const std::vector<float> found = run(*kernel, given, 1);
        bool exact = true;
        for (std::size_t weight = 0; weight < 64; ++weight) {
            for (std::size_t row = 0; row < 256; ++row)
                exact = exact && found[weight * 256 + row] == given.weight_values[row * 64 + weight];
        }
        CHECK(exact);
    }
}

TEST_CASE("what is not a number reaches the results of its row and no other") {
    for (const Kernel* kernel : usable_kernels()) {
        CAPTURE(kernel->name);
        Case given = make_case({40, 40, 128}, true, 0, 9);
        given.rows[3 * 128 + 77] = std::numeric_limits<float>::quiet_NaN();
        const std::vector<float> found = run(*kernel, given, 1);
        for (std::size_t row = 0; row < 40; ++row) {
            const bool all = std::all_of(found.begin() + static_cast<std::ptrdiff_t>(row * 40),
                                         found.begin() + static_cast<std::ptrdiff_t>(row * 40 + 40),
                                         [&](float value) { return std::isnan(value) == (row == 3); });
            CHECK(all);
        }
    }
}

TEST_CASE("batches of rows are addressed by their strides") {
    constexpr std::int64_t k = 64;
    constexpr std::int64_t n = 20;
    const Case given = make_case({2 * 3 * 5, n, k}, true, 0, 4);
    for (const Kernel* kernel : usable_kernels()) {
        CAPTURE(kernel->name);
        // The rows in order (outer, middle, inner) lie in memory as (inner, outer, middle).
        std::vector<float> scattered(given.rows.size());
        for (std::size_t i = 0; i < 5; ++i) {
            for (std::size_t j = 0; j < 3; ++j) {
                for (std::size_t o = 0; o < 2; ++o)
                    std::copy_n(given.rows.begin() + static_cast<std::ptrdiff_t>(((o * 3 + j) * 5 + i) * k),
                                k,
                                scattered.begin() + static_cast<std::ptrdiff_t>(((i * 2 + o) * 3 + j) * k));
            }
        }
        constexpr std::size_t row = k * sizeof(float);
        constexpr std::size_t result = n * sizeof(float);
        std::vector<float> results(30 * n);
        std::vector<std::byte> work(Product::work_size(*kernel, 30, n, k, 1));
        const Product product(*kernel,
                              {.data = given.weights.data(),
                               .stride = given.weight_stride,
                               .count = n,
                               .k = k,
                               .block_weights = 64,
                               .block_bytes = 36,
                               .nvfp4 = true,
                               .to_float = nvfp4_decode},
                              {.data = reinterpret_cast<const std::byte*>(scattered.data()),
                               .count = {5, 3, 2},
                               .stride = {6 * row, row, 3 * row}},
                              {.data = reinterpret_cast<std::byte*>(results.data()),
                               .count = {5, 3, 2},
                               .stride = {result, 5 * result, 15 * result}},
                              work.data(), 1);
        product.pack(0);
        product.begin();
        for (std::int64_t task = 0; task < product.task_count(); ++task)
            product.run(task, 0);
        product.end();
        CHECK(results == run(*kernel, given, 1));
    }
}

namespace {

// The nearest of `values`, a tie to the one at an even index.
std::size_t nearest(const std::vector<double>& values, double wanted) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < values.size(); ++i) {
        const double gain = std::abs(values[best] - wanted) - std::abs(values[i] - wanted);
        if (gain > 0 || (gain == 0 && i % 2 == 0))
            best = i;
    }
    return best;
}

// A token as GPUs with FP4 units round it: E2M1 under the best of five UE4M3 scales for each 16, under a
// scale for the token.
std::vector<double> four_bit(const float* token, std::int64_t k) {
    const std::vector<double> e2m1{0, .5, 1, 1.5, 2, 3, 4, 6};
    std::vector<double> scales;
    for (int code = 0; code < 127; ++code)
        scales.push_back(code < 8 ? code / 512.0 : std::ldexp(1 + code % 8 / 8.0, code / 8 - 7));
    double largest = 0;
    for (std::int64_t i = 0; i < k; ++i)
        largest = std::max(largest, std::abs(static_cast<double>(token[i])));
    const double token_scale = largest / (6 * 448);
    std::vector<double> rounded;
    for (std::int64_t first = 0; first < k; first += 16) {
        double of_block = 0;
        for (std::int64_t i = first; i < first + 16; ++i)
            of_block = std::max(of_block, std::abs(token[i]) / token_scale);
        const auto code = static_cast<int>(nearest(scales, of_block / 6));
        double least = std::numeric_limits<double>::infinity();
        std::vector<double> best;
        for (const int offset : {0, -1, 1, -2, 2}) {
            if (code + offset < 0 || code + offset > 126)
                continue;
            const double scale = scales[static_cast<std::size_t>(code + offset)];
            double error = 0;
            std::vector<double> tried;
            for (std::int64_t i = first; i < first + 16; ++i) {
                const double size = std::abs(token[i]) / token_scale;
                const double found = scale > 0 ? e2m1[nearest(e2m1, size / scale)] * scale : 0;
                error += (size - found) * (size - found);
                tried.push_back(std::copysign(found * token_scale, token[i]));
            }
            if (error < least) {
                least = error;
                best = tried;
            }
        }
        rounded.insert(rounded.end(), best.begin(), best.end());
    }
    return rounded;
}

} // namespace

TEST_CASE("four-bit activations give the product of what they were rounded to") {
    for (const Kernel* kernel : usable_kernels()) {
        CAPTURE(kernel->name);
        for (const Shape& shape : {Shape{1, 1, 64}, Shape{37, 70, 832}, Shape{19, 33, 1600}}) {
            CAPTURE(shape.k);
            Case given = make_case(shape, true, 4, 11);
            for (std::int64_t i = 0; i < shape.k; i += 48) // some blocks of a token are much smaller
                given.rows[static_cast<std::size_t>(i)] *= 100;
            if (shape.m > 1) // one token has no size at all
                std::fill_n(given.rows.begin() + given.row_stride, shape.k, 0.0F);
            const std::vector<float> found = run(*kernel, given, 2, 3, 1, Activations::a4);
            for (std::int64_t i = 0; i < shape.m; ++i) {
                const std::vector<double> token = four_bit(given.rows.data() + i * given.row_stride, shape.k);
                for (std::int64_t j = 0; j < shape.n; ++j) {
                    double sum = 0;
                    double size = 0;
                    for (std::int64_t x = 0; x < shape.k && i != 1; ++x) {
                        const double product = token[static_cast<std::size_t>(x)] *
                                               given.weight_values[static_cast<std::size_t>(j * shape.k + x)];
                        sum += product;
                        size += std::abs(product);
                    }
                    const double error = std::abs(found[static_cast<std::size_t>(i * shape.n + j)] - sum);
                    REQUIRE(error <= 1e-6 * size);
                }
            }
        }
    }
}

TEST_CASE("four-bit activations that are no number stay none, in their row alone") {
    Case given = make_case({9, 20, 64}, true, 0, 3);
    given.rows[4 * 64 + 7] = std::numeric_limits<float>::infinity();
    for (const Kernel* kernel : usable_kernels()) {
        CAPTURE(kernel->name);
        const std::vector<float> found = run(*kernel, given, 1, 0, 0, Activations::a4);
        for (std::size_t i = 0; i < found.size(); ++i)
            REQUIRE(std::isnan(found[i]) == (i / 20 == 4));
    }
}
