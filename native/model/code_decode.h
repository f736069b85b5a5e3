// Faster conversions to FP32 for the weight types that store a code of 2 to 6 bits for each weight.
#pragma once

#include "model/dequantize.h"

namespace twofold {

// Writes the very values that the library's converter writes. Null for other types, and on processors
// without AVX2.
FloatConverter code_converter(int type);

} // namespace twofold
