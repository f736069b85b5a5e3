// Multiplies a product by its weight's scale where the library's graph does not.
//
// Most architectures of the library were written before NVFP4 and never read the scales of some weights. For
// them the engine scales each product itself, right after the library computed it.
#pragma once

#include <cstddef>
#include <vector>

struct ggml_backend_sched;
struct ggml_tensor;

namespace twofold {

class ProductScaler {
  public:
    explicit ProductScaler(ggml_backend_sched* scheduler);

    // Scales `product` in place, on the backend and with the threads that computed it. Throws Error
    // "session.evaluation_failed".
    void scale(ggml_tensor* product, float factor);

  private:
    ggml_backend_sched* scheduler_;
    std::vector<std::byte> memory_; // for a graph of one node
};

} // namespace twofold
