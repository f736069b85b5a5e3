// Faster conversions to FP32 for the weight types whose values come from tables of eight or four; the
// library's take one weight at a time.
#pragma once

#include "model/dequantize.h"

namespace twofold {

// Writes the very values that the library's converter writes. Null for other types, and on processors
// without AVX2.
FloatConverter grid_converter(int type);

} // namespace twofold
