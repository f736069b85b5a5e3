// Faster conversions to FP32 for the weight types whose values come from tables, with a sign each; the
// library's take one weight at a time.
#pragma once

#include "model/dequantize.h"

namespace twofold {

// Writes the very values that the library's converter writes. Falls back to that for types that need nothing
// faster, and on processors without AVX2.
FloatConverter fast_converter(int type);

} // namespace twofold
