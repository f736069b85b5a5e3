// Which dot product suits a type and a processor, and the check of each.
#include "dot/row_dot.h"

#include "dot/row_dot_kinds.h"
#include "kernels/cpu_features.h"
#include "kernels/kernel.h"
#include "model/dequantize.h"

#include <ggml.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string_view>
#include <vector>

namespace twofold {
namespace {

constexpr int types[] = {GGML_TYPE_NVFP4, GGML_TYPE_Q2_0, GGML_TYPE_IQ1_S, GGML_TYPE_IQ2_XXS};

const RowDot* plain_dot(int type) {
    switch (type) {
    case GGML_TYPE_NVFP4:
        return &plain_nvfp4;
    case GGML_TYPE_Q2_0:
        return &plain_q2_0;
    case GGML_TYPE_IQ1_S:
        return &plain_iq1_s;
    case GGML_TYPE_IQ2_XXS:
        return &plain_iq2_xxs;
    default:
        return nullptr;
    }
}

#if defined(__x86_64__)
const RowDot* avx2_dot(int type) {
    switch (type) {
    case GGML_TYPE_NVFP4:
        return &avx2_nvfp4;
    case GGML_TYPE_Q2_0:
        return &avx2_q2_0;
    case GGML_TYPE_IQ1_S:
        return &avx2_iq1_s;
    case GGML_TYPE_IQ2_XXS:
        return &avx2_iq2_xxs;
    default:
        return nullptr;
    }
}

const RowDot* avx512_dot(int type) {
    const bool bytes = cpu_features().avx512_vnni;
    switch (type) {
    case GGML_TYPE_NVFP4:
        return &avx512_nvfp4;
    case GGML_TYPE_Q2_0:
        return bytes ? &avx512_q2_0 : &avx2_q2_0;
    case GGML_TYPE_IQ1_S:
        return bytes ? &avx512_iq1_s : &avx2_iq1_s;
    case GGML_TYPE_IQ2_XXS:
        return bytes ? &avx512_iq2_xxs : &avx2_iq2_xxs;
    default:
        return nullptr;
    }
}
#endif

std::vector<float> multiply(const RowDot& dot, const std::vector<std::uint8_t>& rows, std::size_t stride,
                            std::int64_t count, const std::vector<float>& token) {
    const auto k = static_cast<std::int64_t>(token.size());
    std::vector<std::uint8_t> prepared(dot.prepared_bytes(k));
    dot.prepare(token.data(), k, 0, k, prepared.data());
    std::vector<float> results(static_cast<std::size_t>(count));
    dot.multiply(rows.data(), stride, count, k, prepared.data(), results.data());
    return results;
}

double length(const std::vector<float>& values) {
    double sum = 0;
    for (const float value : values)
        sum += static_cast<double>(value) * value;
    return std::sqrt(sum);
}

// Random bytes are valid blocks once the scales are numbers of ordinary size.
std::vector<std::uint8_t> random_rows(ggml_type type, std::size_t bytes, std::mt19937& random) {
    std::vector<std::uint8_t> made(bytes);
    const std::size_t block = ggml_type_size(type);
    for (std::size_t i = 0; i < bytes; ++i)
        made[i] = static_cast<std::uint8_t>(random());
    for (std::size_t at = 0; at < bytes; at += block) {
        if (type == GGML_TYPE_NVFP4) {
            for (std::size_t s = 0; s < 4; ++s)
                made[at + s] = static_cast<std::uint8_t>(0x28 + random() % 32);
        } else {
            made[at + 1] = static_cast<std::uint8_t>(0x2C + random() % 8); // of a half from 1/16 to 1/2
        }
    }
    return made;
}

} // namespace

const RowDot* row_dot(int type, [[maybe_unused]] const Kernel& kernel) {
#if defined(__x86_64__)
    if (&kernel == &kernel_avx2)
        return avx2_dot(type);
    if (&kernel != &kernel_scalar)
        return avx512_dot(type);
#endif
    // Plain ones of 8-bit activations are no faster than the library's.
    return type == GGML_TYPE_NVFP4 ? plain_dot(type) : nullptr;
}

double row_dot_error(const Kernel& kernel) {
    // The same operands each time.
    std::mt19937 random(11); // NOLINT(bugprone-random-generator-seed)
    std::normal_distribution<float> normal;
    double worst = 0;
    for (const int number : types) {
        const auto type = static_cast<ggml_type>(number);
        const RowDot* dot = row_dot(type, kernel);
        for (const std::int64_t k : {std::int64_t{64}, std::int64_t{576}, std::int64_t{1024}}) {
            if (!dot || k % ggml_blck_size(type) != 0)
                continue;
            constexpr std::int64_t count = 7;
            std::vector<float> token(static_cast<std::size_t>(k));
            std::ranges::generate(token, [&] { return normal(random); });
            const std::size_t stride = ggml_row_size(type, k);
            const std::vector<std::uint8_t> rows = random_rows(type, stride * count, random);
            const std::vector<float> found = multiply(*dot, rows, stride, count, token);
            const std::vector<float> right = multiply(*plain_dot(type), rows, stride, count, token);
            std::vector<float> weights(static_cast<std::size_t>(k));
            for (std::size_t row = 0; row < count; ++row) {
                float_converter(type)(rows.data() + row * stride, weights.data(), k);
                const double error = std::abs(static_cast<double>(found[row]) - right[row]) /
                                     (length(weights) * length(token));
                if (std::isnan(error))
                    return error;
                worst = std::max(worst, error);
            }
        }
    }
    return worst;
}

} // namespace twofold
