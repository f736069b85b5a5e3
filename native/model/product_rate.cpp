// A graph of products on a backend of its own, timed.
#include "model/product_rate.h"

#include "error.h"
#include "hook/cpu_backend.h"
#include "hook/product_hook.h"
#include "model/library_log.h"

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <stdexcept>
#include <vector>

namespace twofold {
namespace {

template <auto free> struct Free {
    template <typename T> void operator()(T* object) const noexcept { free(object); }
};
using Context = std::unique_ptr<ggml_context, Free<ggml_free>>;
using Buffer = std::unique_ptr<ggml_backend_buffer, Free<ggml_backend_buffer_free>>;
using Backend = std::unique_ptr<ggml_backend, Free<ggml_backend_free>>;

Context make_context(std::int64_t tensors) {
    const auto count = static_cast<std::size_t>(tensors);
    return Context(
        ggml_init({.mem_size = ggml_tensor_overhead() * count + ggml_graph_overhead_custom(count, false),
                   .mem_buffer = nullptr,
                   .no_alloc = true}));
}

// Where the library would put such weights: a layout for special instructions first, then the plain one.
std::vector<ggml_backend_buffer_type_t> buffer_types(ggml_backend_dev_t device) {
    std::vector<ggml_backend_buffer_type_t> found;
    const auto extra = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(ggml_backend_reg_get_proc_address(
        ggml_backend_dev_backend_reg(device), "ggml_backend_dev_get_extra_bufts"));
    if (extra)
        for (ggml_backend_buffer_type_t* type = extra(device); type && *type; ++type)
            found.push_back(*type);
    found.push_back(ggml_backend_dev_buffer_type(device));
    return found;
}

bool supports(ggml_backend_dev_t device, const ProductQuestion& question, ggml_backend_buffer_type_t type) {
    const Context context = make_context(3);
    ggml_tensor* weight = ggml_new_tensor_2d(context.get(), static_cast<ggml_type>(question.type),
                                             question.columns, question.rows);
    ggml_tensor* tokens = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, question.columns, question.tokens);
    // The answer depends on the kind of buffer that the weight is in.
    const Buffer buffer(ggml_backend_buft_alloc_buffer(type, 0));
    if (!buffer)
        return false;
    weight->buffer = buffer.get();
    return ggml_backend_dev_supports_op(device, ggml_mul_mat(context.get(), weight, tokens));
}

} // namespace

ProductRate measure_product(const ProductQuestion& question) {
    if (question.device >= ggml_backend_dev_count() || question.type < 0 || question.type >= GGML_TYPE_COUNT)
        throw std::invalid_argument("no such device or type");
    const auto type = static_cast<ggml_type>(question.type);
    if (ggml_blck_size(type) <= 0 || question.rows <= 0 || question.tokens <= 0 || question.matrices <= 0 ||
        question.columns <= 0 || question.columns % ggml_blck_size(type) != 0)
        throw std::invalid_argument("sizes must be positive, columns whole blocks of the type");

    capture_library_log(); // some backends report each tensor
    install_kernels();     // as in every process that loads a model
    ggml_backend_dev_t device = ggml_backend_dev_get(question.device);
    ProductRate rate;
    if (type != GGML_TYPE_F32 && !ggml_get_type_traits(type)->to_float)
        return rate; // whole numbers: backends abort instead of refusing them
    ggml_backend_buffer_type_t chosen = nullptr;
    for (ggml_backend_buffer_type_t candidate : buffer_types(device))
        if (!chosen && supports(device, question, candidate))
            chosen = candidate;
    if (!chosen)
        return rate;

    const Backend backend(ggml_backend_dev_init(device, nullptr));
    if (!backend)
        return rate;
    set_cpu_threads(backend.get(), question.threads);
    const Context weights = make_context(question.matrices);
    std::vector<ggml_tensor*> matrices;
    for (std::int64_t index = 0; index < question.matrices; ++index)
        matrices.push_back(ggml_new_tensor_2d(weights.get(), type, question.columns, question.rows));
    const Buffer weight_buffer(ggml_backend_alloc_ctx_tensors_from_buft(weights.get(), chosen));
    const Context context = make_context(2 * question.matrices + 1);
    ggml_tensor* tokens = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, question.columns, question.tokens);
    // One graph for all, as a model has: starting one takes longer than a narrow product.
    ggml_cgraph* graph =
        ggml_new_graph_custom(context.get(), static_cast<std::size_t>(question.matrices) + 1, false);
    for (ggml_tensor* matrix : matrices)
        ggml_build_forward_expand(graph, ggml_mul_mat(context.get(), matrix, tokens));
    const Buffer buffer(ggml_backend_alloc_ctx_tensors(context.get(), backend.get()));
    if (!weight_buffer || !buffer)
        throw Error("memory.out",
                    {{"wanted", static_cast<std::int64_t>(ggml_nbytes(matrices[0]) * matrices.size())}});
    const std::vector<std::byte> zeros(std::max(ggml_nbytes(matrices[0]), ggml_nbytes(tokens)));
    for (ggml_tensor* matrix : matrices)
        ggml_backend_tensor_set(matrix, zeros.data(), 0, ggml_nbytes(matrix));
    ggml_backend_tensor_set(tokens, zeros.data(), 0, ggml_nbytes(tokens));

    using Clock = std::chrono::steady_clock;
    const auto compute = [&] {
        const auto start = Clock::now();
        ggml_backend_graph_compute(backend.get(), graph);
        ggml_backend_synchronize(backend.get());
        return std::chrono::duration<double>(Clock::now() - start).count();
    };
    compute(); // first use is not the kernel's time
    double least = std::numeric_limits<double>::max();
    for (double spent = 0; spent < question.seconds;) {
        const double took = compute();
        least = std::min(least, took);
        spent += took;
    }
    rate.supported = true;
    rate.weight_bytes = ggml_nbytes(matrices[0]);
    rate.seconds = least / static_cast<double>(question.matrices);
    return rate;
}

} // namespace twofold
