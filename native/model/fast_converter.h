// The fastest conversion to FP32 that there is for a weight type.
#pragma once

#include "model/dequantize.h"

namespace twofold {

// Writes the very values that the library's converter writes. Falls back to that for types and processors
// that have nothing faster.
FloatConverter fast_converter(int type);

} // namespace twofold
