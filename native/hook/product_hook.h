// Puts the engine's kernels into the unmodified library's CPU backend, for matrix products that it has no
// fast kernel for. They run on the library's own threads and in its work memory.
//
// This file alone uses the CPU backend's private headers.
#pragma once

#include <cstdint>

struct ggml_tensor;

namespace twofold {

struct Kernel;

// The fewest columns of activations that a kernel of ours multiplies; fewer go to the library.
inline constexpr std::int64_t min_kernel_columns = 32;

// Chooses a kernel and registers it, once a process; later calls do nothing. Before it the library must not
// be computing. Throws Error "kernel.unknown" (see choice.h), "kernel.no_hook" when the library has no place
// for kernels of others.
void install_kernels();

// What install_kernels() chose; null before it, or when the library multiplies everything.
const Kernel* installed_kernel();

// How many products a kernel of ours has computed in this process.
std::int64_t kernel_products();

} // namespace twofold
