// ggml's NVFP4 blocks as FP32, in the plainest words.
#pragma once

#include <cstdint>

namespace twofold {

// Decodes `count` (a multiple of 64) weights, without the tensor's own scale.
void nvfp4_decode(const void* blocks, float* weights, std::int64_t count);

} // namespace twofold
