// In which precision the products of a prompt are summed.
#pragma once

struct ggml_tensor;

namespace twofold {

// Has a product with NVFP4 weights summed in single precision; other nodes are left alone. To be called
// before the node is computed.
void sum_in_single_precision(ggml_tensor* node);

} // namespace twofold
