// Which kernel multiplies here: the fastest that this processor can run, or the one that the user forces.
#pragma once

#include "kernels/kernel.h"

#include <string>
#include <vector>

namespace twofold {

// Those that this processor can run, the fastest first; scalar is always among them.
const std::vector<const Kernel*>& usable_kernels();

// The kernel that the environment variable TWOFOLD_KERNEL names, else the fastest; null for "library", which
// leaves every product to the library. Throws Error "kernel.unknown" for a name that is none of these.
const Kernel* chosen_kernel();

} // namespace twofold
