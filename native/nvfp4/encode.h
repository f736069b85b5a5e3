// Rounds FP32 weights to ggml's NVFP4 blocks under one scale for the whole tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace twofold {

// ggml's super-block: four sub-blocks of 16 weights, 4 scale bytes and 32 bytes of codes.
inline constexpr std::size_t nvfp4_block_weights = 64;
inline constexpr std::size_t nvfp4_block_bytes = 36;

// The encoder compiled for one instruction set; all write the same bytes.
struct Nvfp4Encoder {
    const char* name;
    void (*encode)(const float* weights, std::size_t count, float scale, std::uint8_t* blocks);
    float (*max_magnitude)(const float* values, std::size_t count);
};

// Those that this machine can run, the fastest first.
const std::vector<Nvfp4Encoder>& nvfp4_encoders();

// Largest magnitude; not finite if any value is not finite. 0 for no values.
float max_magnitude(const float* values, std::size_t count);

// The tensor's scale: magnitude / (6 * 448), so that the largest weight gets the largest code under the
// largest block scale. 1 where that is no usable number (a tensor of zeros).
float nvfp4_tensor_scale(float magnitude);

// Writes count / 64 blocks: block scale e4m3((block magnitude / 6) / scale), rounded to nearest even;
// elements weight / (block scale * scale), rounded to the nearest E2M1 value, ties to the lower magnitude, no
// -0. `count` must be a multiple of 64, the weights finite and `scale` finite and above 0.
void nvfp4_encode(const float* weights, std::size_t count, float scale, std::uint8_t* blocks);

// The same in the plainest words, for tests: whatever nvfp4_encode writes, this writes.
void nvfp4_encode_reference(const float* weights, std::size_t count, float scale, std::uint8_t* blocks);

} // namespace twofold
