// A buffer type without buffers: the CPU backend asks each registered one whether it computes an operation.
#include "hook/product_hook.h"

#include "dot/prepared.h"
#include "dot/row_dot.h"
#include "error.h"
#include "hook/attention_op.h"
#include "hook/cpu_backend.h"
#include "hook/tensor_memory.h"
#include "kernels/choice.h"
#include "kernels/nvfp4_decode.h"
#include "kernels/product.h"
#include "model/fast_converter.h"

#include <ggml-backend.h>
#include <ggml.h>
#include <traits.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <optional>

namespace twofold {
namespace {

const CpuBackend* backend = nullptr;
std::atomic<const Kernel*> installed{nullptr};
std::atomic<std::int64_t> products{0};
std::atomic<int> autocasts{0}; // how many are under way
std::atomic<int> four_bits{0}; // the same of FourBitActivations
std::atomic<std::int64_t> attentions{0};
std::atomic<std::int64_t> attention_tokens{0}; // from so many on; 0: never

std::array<std::atomic<std::int64_t>, GGML_TYPE_COUNT> least_columns{}; // 0: never

std::array<std::atomic<bool>, GGML_TYPE_COUNT> decoded{}; // by a kernel of ours where it was measured faster
std::atomic<std::optional<DecodeActivations>> decode_activations{std::nullopt};

enum class Rule : int { measured, always, never };
std::atomic<Rule> rule{Rule::measured};

std::int64_t row_count(const ggml_tensor* tensor) {
    return tensor->ne[1] * tensor->ne[2] * tensor->ne[3];
}

// Rows of src1 that meet one matrix of src0.
std::int64_t rows_of_matrix(const ggml_tensor* op) {
    return row_count(op->src[1]) / (op->src[0]->ne[2] * op->src[0]->ne[3]);
}

bool is_weight(const ggml_tensor* tensor) {
    ggml_backend_buffer_t buffer = buffer_of(tensor);
    return buffer && ggml_backend_buffer_get_usage(buffer) == GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
}

// Formats that lose nothing to speak of as BF16; the library multiplies finer ones more exactly.
bool coarse(ggml_type type) {
    return ggml_is_quantized(type) || type == GGML_TYPE_BF16;
}

bool takes(const ggml_tensor* weights, std::int64_t columns) {
    const Rule now = rule;
    if (now != Rule::measured)
        return now == Rule::always && coarse(weights->type);
    if (weights->type == GGML_TYPE_NVFP4)
        return columns >= min_kernel_columns;
    return autocasts > 0 && autocast_takes(weights, columns);
}

// What multiplies as few columns as in decoding; null where the library or a tiled kernel does.
const RowDot* dot_of(const ggml_tensor* op) {
    const ggml_tensor* weights = op->src[0];
    const Rule now = rule;
    if (now == Rule::never || op->src[1]->ne[1] >= min_kernel_columns || weights->ne[2] * weights->ne[3] != 1)
        return nullptr;
    const bool nvfp4 = weights->type == GGML_TYPE_NVFP4;
    if (const std::optional<DecodeActivations> kind = decode_activations; nvfp4 && kind)
        return *kind == DecodeActivations::library ? nullptr
                                                   : &exact_nvfp4_dot(*kind == DecodeActivations::four_bits);
    if (!nvfp4 && now == Rule::measured && !decoded[static_cast<std::size_t>(weights->type)])
        return nullptr;
    return row_dot(weights->type, *installed);
}

bool ours(const ggml_tensor* op) {
    if (op->op != GGML_OP_MUL_MAT)
        return false;
    const ggml_tensor* weights = op->src[0];
    const ggml_tensor* rows = op->src[1];
    return rows->type == GGML_TYPE_F32 && op->type == GGML_TYPE_F32 &&
           (dot_of(op) || takes(weights, rows->ne[1])) && in_plain_memory(weights) &&
           weights->nb[0] == ggml_type_size(weights->type) && rows->nb[0] == sizeof(float) &&
           op->nb[0] == sizeof(float);
}

class ProductTraits : public ggml::cpu::tensor_traits {
  public:
    bool work_size(int n_threads, const ggml_tensor* op, std::size_t& size) override {
        if (const RowDot* dot = dot_of(op)) {
            size =
                prepared_alignment + token_bytes(*dot, op) * static_cast<std::size_t>(row_count(op->src[1]));
            return true;
        }
        size = Product::work_size(*installed, rows_of_matrix(op), op->src[0]->ne[1], op->src[0]->ne[0],
                                  n_threads);
        return true;
    }

    bool compute_forward(ggml_compute_params* params, ggml_tensor* op) override {
        const ggml_tensor* src0 = op->src[0];
        const ggml_tensor* src1 = op->src[1];
        const std::int64_t repeats2 = src1->ne[2] / src0->ne[2];
        const std::int64_t repeats3 = src1->ne[3] / src0->ne[3];
        if (params->ith == 0)
            ++products;
        if (const RowDot* dot = dot_of(op)) {
            decode(params, *dot, op);
            return true;
        }
        for (std::int64_t i3 = 0; i3 < src0->ne[3]; ++i3) {
            for (std::int64_t i2 = 0; i2 < src0->ne[2]; ++i2) {
                const WeightRows weights{
                    .data =
                        static_cast<const std::uint8_t*>(src0->data) + i2 * src0->nb[2] + i3 * src0->nb[3],
                    .stride = src0->nb[1],
                    .count = src0->ne[1],
                    .k = src0->ne[0],
                    .block_weights = ggml_blck_size(src0->type),
                    .block_bytes = ggml_type_size(src0->type),
                    .nvfp4 = src0->type == GGML_TYPE_NVFP4,
                    .to_float = src0->type == GGML_TYPE_NVFP4 ? nvfp4_decode : fast_converter(src0->type)};
                const FloatRows<const std::byte> rows{.data = static_cast<const std::byte*>(src1->data) +
                                                              i2 * repeats2 * src1->nb[2] +
                                                              i3 * repeats3 * src1->nb[3],
                                                      .count = {src1->ne[1], repeats2, repeats3},
                                                      .stride = {src1->nb[1], src1->nb[2], src1->nb[3]}};
                const FloatRows<std::byte> results{.data = static_cast<std::byte*>(op->data) +
                                                           i2 * repeats2 * op->nb[2] +
                                                           i3 * repeats3 * op->nb[3],
                                                   .count = rows.count,
                                                   .stride = {op->nb[1], op->nb[2], op->nb[3]}};
                multiply(params, weights, rows, results);
            }
        }
        return true;
    }

  private:
    static std::size_t token_bytes(const RowDot& dot, const ggml_tensor* op) {
        const std::size_t bytes = dot.prepared_bytes(op->src[0]->ne[0]);
        return (bytes + prepared_alignment - 1) / prepared_alignment * prepared_alignment;
    }

    // Few tokens: each row of weights meets them one after the other.
    static void decode(const ggml_compute_params* params, const RowDot& dot, ggml_tensor* op) {
        const ggml_tensor* weights = op->src[0];
        const ggml_tensor* tokens = op->src[1];
        const std::int64_t k = weights->ne[0];
        const FloatRows<const std::byte> from{.data = static_cast<const std::byte*>(tokens->data),
                                              .count = {tokens->ne[1], tokens->ne[2], tokens->ne[3]},
                                              .stride = {tokens->nb[1], tokens->nb[2], tokens->nb[3]}};
        const FloatRows<std::byte> to{.data = static_cast<std::byte*>(op->data),
                                      .count = from.count,
                                      .stride = {op->nb[1], op->nb[2], op->nb[3]}};
        const auto address = reinterpret_cast<std::uintptr_t>(params->wdata);
        auto* prepared = static_cast<std::byte*>(params->wdata) +
                         (prepared_alignment - address % prepared_alignment) % prepared_alignment;
        const std::size_t bytes = token_bytes(dot, op);
        if (params->ith == 0)
            backend->chunk_set(params->threadpool, 0);
        for (std::int64_t token = 0; token < from.size(); ++token) {
            const std::int64_t step = prepared_step * params->nth;
            for (std::int64_t first = params->ith * prepared_step; first < k; first += step)
                dot.prepare(reinterpret_cast<const float*>(from.row(token)), k, first,
                            std::min(prepared_step, k - first),
                            prepared + static_cast<std::size_t>(token) * bytes);
        }
        backend->barrier(params->threadpool);
        constexpr std::int64_t chunk = 32; // rows: some 100 KiB of a large model's weights
        const std::int64_t rows = weights->ne[1];
        for (std::int64_t first = chunk * backend->chunk_add(params->threadpool, 1); first < rows;
             first = chunk * backend->chunk_add(params->threadpool, 1)) {
            const auto* data = static_cast<const std::uint8_t*>(weights->data) +
                               static_cast<std::size_t>(first) * weights->nb[1];
            for (std::int64_t token = 0; token < from.size(); ++token)
                dot.multiply(data, weights->nb[1], std::min(chunk, rows - first), k,
                             prepared + static_cast<std::size_t>(token) * bytes,
                             reinterpret_cast<float*>(to.row(token)) + first);
        }
    }

    static void multiply(const ggml_compute_params* params, const WeightRows& weights,
                         const FloatRows<const std::byte>& rows, const FloatRows<std::byte>& results) {
        const bool rounded = weights.nvfp4 && four_bits > 0;
        const Product product(*installed, weights, rows, results, params->wdata, params->nth,
                              rounded ? Activations::a4 : Activations::bf16);
        if (params->ith == 0)
            backend->chunk_set(params->threadpool, 0);
        product.pack(params->ith);
        backend->barrier(params->threadpool);
        product.begin();
        for (std::int64_t task = backend->chunk_add(params->threadpool, 1); task < product.task_count();
             task = backend->chunk_add(params->threadpool, 1))
            product.run(task, params->ith);
        product.end();
        backend->barrier(params->threadpool); // the next product uses the same memory
    }
};

// Whether a kernel of ours computes this attention.
bool attends(const ggml_tensor* op) {
    if (!is_attention(op) || rule == Rule::never)
        return false;
    const std::int64_t least = attention_tokens;
    return rule == Rule::always || (least > 0 && op->src[0]->ne[1] >= least);
}

class ProductHook : public ggml::cpu::extra_buffer_type {
  public:
    bool supports_op(ggml_backend_dev_t /*device*/, const ggml_tensor* /*op*/) override { return false; }
    ggml::cpu::tensor_traits* get_tensor_traits(const ggml_tensor* op) override {
        if (ours(op))
            return &traits_;
        return attends(op) ? &attention_ : nullptr;
    }

  private:
    ProductTraits traits_;
    AttentionTraits attention_{installed_kernel, *backend, attentions};
};

void install() {
    const Kernel* kernel = chosen_kernel();
    if (!kernel)
        return;
    backend = &cpu_backend();
    installed = kernel;
    static ProductHook hook; // outlives every graph
    static ggml_backend_buffer_type type{};
    type.iface.get_name = [](ggml_backend_buffer_type_t) { return "TWOFOLD"; };
    type.context = &hook;
    backend->extra_buffer_types().push_back(&type);
}

} // namespace

void install_kernels() {
    static std::mutex mutex;
    static bool done = false;
    const std::scoped_lock lock(mutex);
    if (done)
        return;
    install();
    done = true;
}

const Kernel* installed_kernel() {
    return installed;
}

std::int64_t kernel_products() {
    return products;
}

std::int64_t kernel_attentions() {
    return attentions;
}

TiledAttention::TiledAttention(std::int64_t tokens) {
    attention_tokens = tokens;
}

TiledAttention::~TiledAttention() {
    attention_tokens = 0;
}

Autocast::Autocast() {
    ++autocasts;
}

Autocast::~Autocast() {
    --autocasts;
}

FourBitActivations::FourBitActivations() {
    ++four_bits;
}

FourBitActivations::~FourBitActivations() {
    --four_bits;
}

void set_decode_kernel(int type, bool ours) {
    if (type < 0 || type >= GGML_TYPE_COUNT)
        throw Error("weights.unknown_type", {{"type", std::int64_t{type}}});
    decoded[static_cast<std::size_t>(type)] = ours;
}

void set_decode_activations(std::optional<DecodeActivations> kind) {
    decode_activations = kind;
}

void set_autocast_columns(int type, std::int64_t columns) {
    if (type < 0 || type >= GGML_TYPE_COUNT)
        throw Error("weights.unknown_type", {{"type", std::int64_t{type}}});
    least_columns[static_cast<std::size_t>(type)] = columns;
}

std::int64_t autocast_columns(int type) {
    const std::int64_t columns = least_columns[static_cast<std::size_t>(type)];
    return columns > 0 ? columns : never;
}

bool autocast_takes(const ggml_tensor* weights, std::int64_t columns) {
    return installed && weights->type != GGML_TYPE_NVFP4 && columns >= autocast_columns(weights->type) &&
           coarse(weights->type) && is_weight(weights) && in_plain_memory(weights);
}

ForcedProducts::ForcedProducts(const Kernel* kernel) : before_(installed) {
    if (kernel)
        installed = kernel;
    rule = kernel ? Rule::always : Rule::never;
}

ForcedProducts::~ForcedProducts() {
    installed = before_;
    rule = Rule::measured;
}

} // namespace twofold
