// Two fused passes over source weights; FP32 exists only as one cache-sized piece at a time.
#include "model/dequantize.h"

#include "error.h"
#include "hook/cpu_backend.h"
#include "model/fast_converter.h"
#include "nvfp4/encode.h"

#include <ggml.h>

#include <algorithm>
#include <cmath>

namespace twofold {
namespace {

// A multiple of every type's block; 16 KiB as FP32, well inside the first-level cache.
constexpr std::size_t piece_weights = 4096;

// Calls use(weights, count, first) for each piece, with FP32 weights.
template <typename Use> void for_each_piece(const SourceWeights& source, const Use& use) {
    if (source.type < 0 || source.type >= GGML_TYPE_COUNT)
        throw Error("weights.unknown_type", {{"type", std::int64_t{source.type}}});
    const auto type = static_cast<ggml_type>(source.type);
    const ggml_type_traits* traits = ggml_get_type_traits(type);
    const FloatConverter to_float = fast_converter(source.type);
    if (to_float == nullptr || traits->blck_size <= 0)
        throw Error("weights.unknown_type", {{"type", std::int64_t{source.type}}});

    const auto block_weights = static_cast<std::size_t>(traits->blck_size);
    if (source.count % nvfp4_block_weights != 0 || source.count % block_weights != 0 ||
        source.bytes != source.count / block_weights * traits->type_size)
        throw Error("weights.wrong_size", {{"count", static_cast<std::int64_t>(source.count)},
                                           {"bytes", static_cast<std::int64_t>(source.bytes)}});

    alignas(64) float piece[piece_weights];
    const auto* from = static_cast<const std::uint8_t*>(source.data);
    for (std::size_t first = 0; first < source.count; first += piece_weights) {
        const std::size_t count = std::min(piece_weights, source.count - first);
        to_float(from + first / block_weights * traits->type_size, piece, static_cast<std::int64_t>(count));
        use(piece, count, first);
    }
}

} // namespace

FloatConverter float_converter(int type) {
    // The CPU backend's conversions of the two half formats are vectorised, the generic ones are not.
    switch (type) {
    case GGML_TYPE_F16:
        return [](const void* from, float* to, std::int64_t count) {
            cpu_backend().fp16_to_fp32(static_cast<const ggml_fp16_t*>(from), to, count);
        };
    case GGML_TYPE_BF16:
        return [](const void* from, float* to, std::int64_t count) {
            cpu_backend().bf16_to_fp32(static_cast<const ggml_bf16_t*>(from), to, count);
        };
    case GGML_TYPE_F32:
        return [](const void* from, float* to, std::int64_t count) {
            std::copy_n(static_cast<const float*>(from), count, to);
        };
    default:
        return ggml_get_type_traits(static_cast<ggml_type>(type))->to_float;
    }
}

float source_magnitude(const SourceWeights& source) {
    float largest = 0.0F;
    for_each_piece(source, [&](const float* weights, std::size_t count, std::size_t) {
        const float magnitude = max_magnitude(weights, count);
        if (!std::isfinite(magnitude))
            throw Error("weights.not_finite");
        largest = std::max(largest, magnitude);
    });
    return largest;
}

void encode_source(const SourceWeights& source, float scale, std::uint8_t* blocks, std::size_t blocks_bytes) {
    if (!std::isfinite(scale) || scale <= 0.0F)
        throw Error("weights.bad_scale", {{"scale", static_cast<double>(scale)}});
    if (blocks_bytes != source.count / nvfp4_block_weights * nvfp4_block_bytes)
        throw Error("weights.wrong_size", {{"count", static_cast<std::int64_t>(source.count)},
                                           {"bytes", static_cast<std::int64_t>(blocks_bytes)}});
    for_each_piece(source, [&](const float* weights, std::size_t count, std::size_t first) {
        nvfp4_encode(weights, count, scale, blocks + first / nvfp4_block_weights * nvfp4_block_bytes);
    });
}

} // namespace twofold
