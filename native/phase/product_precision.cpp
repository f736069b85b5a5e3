// Asks the backend for single precision where half would overflow.
#include "phase/product_precision.h"

#include <ggml.h>

namespace twofold {

void sum_in_single_precision(ggml_tensor* node) {
    if ((node->op == GGML_OP_MUL_MAT || node->op == GGML_OP_MUL_MAT_ID) &&
        node->src[0]->type == GGML_TYPE_NVFP4) {
        // The tensor's scale comes after the product: until then weights reach 2688, and a sum that a device
        // keeps in half precision is infinite from 65520 on.
        ggml_prec_set_acc(node, GGML_PREC_F32);
    }
}

} // namespace twofold
