// Attention of the library's graphs, computed by a kernel of ours while a prompt is read.
#pragma once

#include "kernels/kernel.h"

#include <traits.h>

#include <atomic>
#include <cstdint>

struct ggml_tensor;

namespace twofold {

struct CpuBackend;

// Whether the operation is one that Attention can compute: FP32 queries, and keys and values of any format
// in ordinary memory.
bool is_attention(const ggml_tensor* op);

// Computes such an operation; `kernel` and `backend` are as they are when a graph is planned and computed.
class AttentionTraits : public ggml::cpu::tensor_traits {
  public:
    // Counts in `computed`.
    AttentionTraits(const Kernel* (*kernel)(), const CpuBackend& backend, std::atomic<std::int64_t>& computed)
        : kernel_(kernel), backend_(backend), computed_(computed) {}
    bool work_size(int n_threads, const ggml_tensor* op, std::size_t& size) override;
    bool compute_forward(ggml_compute_params* params, ggml_tensor* op) override;

  private:
    const Kernel* (*kernel_)();
    const CpuBackend& backend_;
    std::atomic<std::int64_t>& computed_;
};

} // namespace twofold
