// Activations rounded to four bits as GPUs with FP4 units do: for parity with them, not for accuracy.
#pragma once

#include <cstdint>

namespace twofold {

// A token's scale: its largest magnitude / (6 * 448). 0 for zeros, not finite if any value is not finite.
float a4_token_scale(const float* token, std::int64_t k);

// Rounds `count` (a multiple of 16) of a token's values to E2M1 under a UE4M3 scale for each 16, and writes
// what those stand for, without the token's scale: exact in BF16. The scale is the nearest to the 16's
// largest magnitude / 6, or of its four nearest neighbours the one with the least squared error. Where the
// token's scale is not a finite number above 0, zeros.
void a4_round(const float* token, std::int64_t count, float token_scale, float* values);

} // namespace twofold
