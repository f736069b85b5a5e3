// Compares a kernel with the scalar one on random operands; it runs the kernel, so call it in a process that
// may die.
#pragma once

#include "kernels/kernel.h"

namespace twofold {

// The largest error over a few shapes, ragged ones among them, relative to the sum of the products'
// magnitudes; not a number when results are none. Right kernels stay below kernel_tolerance.
double kernel_error(const Kernel& kernel);
inline constexpr double kernel_tolerance = 1e-5;

} // namespace twofold
