// Reads GGML_OP_FLASH_ATTN_EXT: queries, keys, values, mask and sinks, and how scores are made.
#include "hook/attention_op.h"

#include "hook/cpu_backend.h"
#include "hook/tensor_memory.h"
#include "kernels/attention.h"
#include "model/fast_converter.h"

#include <ggml.h>

#include <cstring>

namespace twofold {
namespace {

float parameter(const ggml_tensor* op, std::size_t index) {
    float value = 0;
    std::memcpy(&value, reinterpret_cast<const float*>(op->op_params) + index, sizeof value);
    return value;
}

HeadRows rows_of(const ggml_tensor* tensor) {
    return {.data = static_cast<const std::byte*>(tensor->data),
            .heads = tensor->ne[2],
            .sequences = tensor->ne[3],
            .stride = {tensor->nb[1], tensor->nb[2], tensor->nb[3]},
            .to_float = tensor->type == GGML_TYPE_F32 ? nullptr : fast_converter(tensor->type)};
}

AttentionOperands operands_of(const ggml_tensor* op) {
    const ggml_tensor* queries = op->src[0];
    AttentionOperands operands{.tokens = queries->ne[1],
                               .cached = op->src[1]->ne[1],
                               .key_size = queries->ne[0],
                               .value_size = op->src[2]->ne[0],
                               .queries = rows_of(queries),
                               .keys = rows_of(op->src[1]),
                               .values = rows_of(op->src[2]),
                               .mask = {},
                               .sinks = op->src[4] ? static_cast<const float*>(op->src[4]->data) : nullptr,
                               .scale = parameter(op, 0),
                               .softcap = parameter(op, 2),
                               .max_bias = parameter(op, 1),
                               .out = static_cast<float*>(op->data)};
    if (op->src[3])
        operands.mask = rows_of(op->src[3]);
    return operands;
}

} // namespace

bool is_attention(const ggml_tensor* op) {
    if (op->op != GGML_OP_FLASH_ATTN_EXT)
        return false;
    const ggml_tensor* queries = op->src[0];
    const ggml_tensor* keys = op->src[1];
    const ggml_tensor* values = op->src[2];
    const ggml_tensor* mask = op->src[3];
    const auto rows = [](const ggml_tensor* tensor) { return tensor->nb[0] == ggml_type_size(tensor->type); };
    const auto readable = [](const ggml_tensor* tensor) {
        return tensor->type == GGML_TYPE_F32 || fast_converter(tensor->type) != nullptr;
    };
    return queries->type == GGML_TYPE_F32 && op->type == GGML_TYPE_F32 && rows(queries) && rows(keys) &&
           rows(values) && readable(keys) && readable(values) && in_plain_memory(queries) &&
           in_plain_memory(keys) && in_plain_memory(values) && ggml_is_contiguous(op) &&
           keys->ne[2] == values->ne[2] && keys->ne[3] == values->ne[3] &&
           (!mask || (mask->type == GGML_TYPE_F16 && rows(mask)));
}

bool AttentionTraits::work_size(int n_threads, const ggml_tensor* op, std::size_t& size) {
    size = Attention::work_size(*kernel_(), operands_of(op), n_threads);
    return true;
}

bool AttentionTraits::compute_forward(ggml_compute_params* params, ggml_tensor* op) {
    const Attention attention(*kernel_(), operands_of(op), params->wdata, params->nth);
    if (params->ith == 0) {
        backend_.chunk_set(params->threadpool, 0);
        ++computed_;
    }
    attention.scan(params->ith);
    backend_.barrier(params->threadpool);
    attention.begin();
    for (std::int64_t task = backend_.chunk_add(params->threadpool, 1); task < attention.task_count();
         task = backend_.chunk_add(params->threadpool, 1))
        attention.run(task, params->ith);
    attention.end();
    backend_.barrier(params->threadpool); // what follows uses the same memory
    return true;
}

} // namespace twofold
