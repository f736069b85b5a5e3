// Graphs of one node on the CPU backend.
#include "hook/product_bench.h"

#include "error.h"
#include "hook/bench_graph.h"
#include "hook/product_hook.h"
#include "kernels/choice.h"

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml.h>

#include <chrono>
#include <optional>

namespace twofold {
namespace {

std::vector<ggml_backend_buffer_type_t> buffer_types(ggml_backend_dev_t device) {
    std::vector<ggml_backend_buffer_type_t> found{ggml_backend_dev_buffer_type(device)};
    auto* list = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(ggml_backend_reg_get_proc_address(
        ggml_backend_dev_backend_reg(device), "ggml_backend_dev_get_extra_bufts"));
    for (ggml_backend_buffer_type_t* type = list ? list(device) : nullptr; type && *type; ++type)
        found.push_back(*type);
    return found;
}

// Weights in one kind of memory, and the product with them.
struct Placed {
    std::string name;
    Context weight_context;
    Buffer weight_buffer;
    Context context;
    Buffer buffer;
    ggml_tensor* product = nullptr;
    ggml_cgraph* graph = nullptr;
};

} // namespace

struct ProductBench::State {
    Backend backend;
    std::vector<Placed> placed;
    Placed* last = nullptr;

    double compute(Placed& one) {
        last = &one;
        return seconds_of(backend, one.graph);
    }
};

ProductBench::ProductBench(int type, std::int64_t m, std::int64_t n, std::int64_t k,
                           const std::uint8_t* weights, std::size_t bytes, int threads)
    : state_(std::make_unique<State>()) {
    install_kernels();
    if (type < 0 || type >= GGML_TYPE_COUNT || ggml_blck_size(static_cast<ggml_type>(type)) == 0)
        throw Error("weights.unknown_type", {{"type", std::int64_t{type}}});
    const auto ggml_type_of = static_cast<ggml_type>(type);
    if (m <= 0 || n <= 0 || k <= 0 || k % ggml_blck_size(ggml_type_of) != 0 ||
        bytes != ggml_row_size(ggml_type_of, k) * static_cast<std::size_t>(n))
        throw Error("weights.wrong_size", {{"count", n * k}, {"bytes", static_cast<std::int64_t>(bytes)}});
    ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    state_->backend = make_cpu_backend(threads);

    const std::vector<float> rows = normal_values(m * k, 1);

    for (ggml_backend_buffer_type_t memory : buffer_types(device)) {
        Placed one{.name = ggml_backend_buft_name(memory),
                   .weight_context = make_graph_context(),
                   .weight_buffer = nullptr,
                   .context = make_graph_context(),
                   .buffer = nullptr};
        ggml_tensor* held = ggml_new_tensor_2d(one.weight_context.get(), ggml_type_of, k, n);
        one.weight_buffer.reset(ggml_backend_alloc_ctx_tensors_from_buft(one.weight_context.get(), memory));
        ggml_tensor* given = ggml_new_tensor_2d(one.context.get(), GGML_TYPE_F32, k, m);
        one.product = ggml_mul_mat(one.context.get(), held, given);
        one.buffer.reset(ggml_backend_alloc_ctx_tensors(one.context.get(), state_->backend.get()));
        if (!one.weight_buffer || !one.buffer)
            throw Error("memory.out", {{"wanted", static_cast<std::int64_t>(bytes)}});
        if (!ggml_backend_dev_supports_op(device, one.product))
            continue;
        ggml_backend_buffer_set_usage(one.weight_buffer.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        ggml_backend_tensor_set(held, weights, 0, bytes);
        ggml_backend_tensor_set(given, rows.data(), 0, rows.size() * sizeof(float));
        one.graph = graph_of(one.context.get(), one.product);
        state_->placed.push_back(std::move(one));
    }
    if (state_->placed.empty())
        throw Error("weights.unknown_type", {{"type", std::int64_t{type}}});
}

ProductBench::~ProductBench() = default;

std::vector<std::string> ProductBench::buffers() const {
    std::vector<std::string> names;
    for (const Placed& one : state_->placed)
        names.push_back(one.name);
    return names;
}

double ProductBench::library(std::size_t buffer) {
    const ForcedProducts forced(nullptr);
    return state_->compute(state_->placed.at(buffer));
}

double ProductBench::ours(const std::string& kernel, bool four_bits) {
    const ForcedProducts forced(&kernel_named(kernel));
    std::optional<FourBitActivations> rounding;
    if (four_bits)
        rounding.emplace();
    const std::int64_t before = kernel_products();
    const double seconds = state_->compute(state_->placed.front());
    if (kernel_products() == before)
        throw Error("kernel.unused", {{"wanted", kernel}});
    return seconds;
}

double ProductBench::peak(const std::string& name) {
    const Kernel& kernel = kernel_named(name);
    constexpr std::int64_t rounds = 20'000;
    if (kernel.begin)
        kernel.begin();
    const auto start = std::chrono::steady_clock::now();
    const double operations = kernel.spin(rounds);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (kernel.end)
        kernel.end();
    return operations / seconds;
}

std::vector<float> ProductBench::results() const {
    if (!state_->last)
        return {};
    return values_of(state_->last->product);
}

} // namespace twofold
