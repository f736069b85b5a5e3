// Weights of any ggml type, read through FP32 in pieces that stay in the cache: magnitude and NVFP4 encoding.
#pragma once

#include <cstddef>
#include <cstdint>

namespace twofold {

// A run of weights in ggml's layout: whole rows, or any part of them that ends on a block of the type.
struct SourceWeights {
    int type; // ggml_type
    const void* data;
    std::size_t bytes;
    std::size_t count; // weights; a multiple of 64
};

// Turns `count` weights of `type`, whole blocks, into FP32; null for a type that ggml cannot.
using FloatConverter = void (*)(const void* blocks, float* weights, std::int64_t count);
FloatConverter float_converter(int type);

// Largest magnitude. Throws Error "weights.not_finite", "weights.unknown_type" for a type that ggml cannot
// turn into FP32, "weights.wrong_size" where bytes and count do not agree.
float source_magnitude(const SourceWeights& source);

// Writes the NVFP4 blocks of `source` under the tensor's scale: count / 64 * 36 bytes. Throws as above, also
// when `scale` is not finite and above 0 ("weights.bad_scale").
void encode_source(const SourceWeights& source, float scale, std::uint8_t* blocks, std::size_t blocks_bytes);

} // namespace twofold
