// A graph of one attention.
#include "hook/attention_bench.h"

#include "error.h"
#include "hook/bench_graph.h"
#include "hook/product_hook.h"

#include <ggml-alloc.h>

#include <cmath>
#include <limits>

namespace twofold {

struct AttentionBench::State {
    AttentionShape shape;
    Backend backend;
    Context context;
    Buffer buffer;
    ggml_tensor* result = nullptr;
    ggml_cgraph* graph = nullptr;
};

AttentionBench::AttentionBench(const AttentionShape& shape, int threads) : state_(std::make_unique<State>()) {
    install_kernels();
    const auto type = static_cast<ggml_type>(shape.type);
    const bool known = shape.type >= 0 && shape.type < GGML_TYPE_COUNT && ggml_blck_size(type) > 0 &&
                       (type == GGML_TYPE_F32 || ggml_get_type_traits(type)->from_float_ref != nullptr);
    if (!known || shape.tokens <= 0 || shape.cached < shape.tokens || shape.key_heads <= 0 ||
        shape.heads <= 0 || shape.heads % shape.key_heads != 0 || shape.key_size <= 0 ||
        shape.value_size <= 0 || shape.key_size % ggml_blck_size(type) != 0 ||
        shape.value_size % ggml_blck_size(type) != 0)
        throw Error("attention.wrong_shape", {{"tokens", shape.tokens}, {"cached", shape.cached}});
    state_->shape = shape;
    state_->backend = make_cpu_backend(threads);
    state_->context = make_graph_context();
    ggml_context* context = state_->context.get();
    ggml_tensor* queries =
        ggml_new_tensor_3d(context, GGML_TYPE_F32, shape.key_size, shape.tokens, shape.heads);
    ggml_tensor* keys = ggml_new_tensor_3d(context, type, shape.key_size, shape.cached, shape.key_heads);
    ggml_tensor* values = ggml_new_tensor_3d(context, type, shape.value_size, shape.cached, shape.key_heads);
    ggml_tensor* mask = ggml_new_tensor_2d(context, GGML_TYPE_F16, shape.cached, shape.tokens);
    state_->result = ggml_flash_attn_ext(context, queries, keys, values, mask,
                                         1 / std::sqrt(static_cast<float>(shape.key_size)), 0, 0);
    state_->graph = graph_of(context, state_->result);
    state_->buffer.reset(ggml_backend_alloc_ctx_tensors(context, state_->backend.get()));
    if (!state_->buffer)
        throw Error("memory.out", {{"wanted", static_cast<std::int64_t>(ggml_nbytes(keys))}});

    unsigned seed = 1;
    for (ggml_tensor* tensor : {queries, keys, values}) {
        const std::vector<float> numbers = normal_values(ggml_nelements(tensor), seed++);
        std::vector<std::byte> bytes(ggml_nbytes(tensor));
        if (tensor->type == GGML_TYPE_F32)
            ggml_backend_tensor_set(tensor, numbers.data(), 0, bytes.size());
        else {
            ggml_quantize_chunk(tensor->type, numbers.data(), bytes.data(), 0,
                                ggml_nelements(tensor) / tensor->ne[0], tensor->ne[0], nullptr);
            ggml_backend_tensor_set(tensor, bytes.data(), 0, bytes.size());
        }
    }
    std::vector<ggml_fp16_t> hidden(static_cast<std::size_t>(shape.cached * shape.tokens));
    for (std::int64_t token = 0; token < shape.tokens; ++token) {
        for (std::int64_t key = shape.cached - shape.tokens + token + 1; key < shape.cached; ++key)
            hidden[static_cast<std::size_t>(token * shape.cached + key)] =
                ggml_fp32_to_fp16(-std::numeric_limits<float>::infinity());
    }
    ggml_backend_tensor_set(mask, hidden.data(), 0, hidden.size() * sizeof(ggml_fp16_t));
}

AttentionBench::~AttentionBench() = default;

double AttentionBench::library() {
    const ForcedProducts forced(nullptr);
    return seconds_of(state_->backend, state_->graph);
}

double AttentionBench::ours(const std::string& kernel) {
    const ForcedProducts forced(&kernel_named(kernel));
    const std::int64_t before = kernel_attentions();
    const double seconds = seconds_of(state_->backend, state_->graph);
    if (kernel_attentions() == before)
        throw Error("kernel.unused", {{"wanted", kernel}});
    return seconds;
}

double AttentionBench::operations() const {
    const AttentionShape& shape = state_->shape;
    const auto tokens = static_cast<double>(shape.tokens);
    const double seen = tokens * (static_cast<double>(shape.cached) - (tokens - 1) / 2);
    return 2 * seen * static_cast<double>(shape.heads * (shape.key_size + shape.value_size));
}

std::vector<float> AttentionBench::results() const {
    return values_of(state_->result);
}

} // namespace twofold
