// Which kernel multiplies here: the fastest that this processor can run, or the one that the user forces.
#pragma once

#include "kernels/product.h"

#include <string>
#include <vector>

namespace twofold {

// Those that this processor can run and that were not disabled, the fastest first; scalar is always among
// them.
std::vector<const Kernel*> usable_kernels();

// Takes a kernel out of the usable ones: it failed its check. Before install_kernels().
void disable_kernel(const std::string& name);

// Their names and "library", for a sentence.
std::string kernel_names();

// The kernel that the environment variable TWOFOLD_KERNEL names, else the fastest; null for "library", which
// leaves every product to the library. Throws Error "kernel.unknown" for a name that is none of these.
const Kernel* chosen_kernel();

// Whether the environment variable TWOFOLD_ACTIVATIONS asks for `a4` in prompts, instead of `bf16`, as by
// default. Throws Error "kernel.unknown_activations".
Activations chosen_activations();

} // namespace twofold
