// ggml's NVFP4 blocks as FP32, in the plainest words.
#pragma once

#include <array>
#include <cstdint>

namespace twofold {

// Decodes `count` (a multiple of 64) weights, without the tensor's own scale.
void nvfp4_decode(const void* blocks, float* weights, std::int64_t count);

// What the codes of a block's scales stand for.
const std::array<float, 256>& nvfp4_scales();

} // namespace twofold
