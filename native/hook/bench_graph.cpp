// Frees what ggml hands out, and times its computing.
#include "hook/bench_graph.h"

#include "error.h"
#include "hook/cpu_backend.h"
#include "kernels/choice.h"

#include <algorithm>
#include <chrono>
#include <random>

namespace twofold {

Context make_graph_context() {
    constexpr std::size_t nodes = 8;
    return Context(ggml_init({ggml_tensor_overhead() * nodes + ggml_graph_overhead(), nullptr, true}));
}

Backend make_cpu_backend(int threads) {
    Backend backend(ggml_backend_dev_init(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU), nullptr));
    set_cpu_threads(backend.get(), threads);
    return backend;
}

ggml_cgraph* graph_of(ggml_context* context, ggml_tensor* result) {
    ggml_cgraph* graph = ggml_new_graph(context);
    ggml_build_forward_expand(graph, result);
    return graph;
}

double seconds_of(const Backend& backend, ggml_cgraph* graph) {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    if (ggml_backend_graph_compute(backend.get(), graph) != GGML_STATUS_SUCCESS)
        throw Error("session.evaluation_failed",
                    {{"result", std::int64_t{-1}}, {"why", std::string("the measured operation failed")}});
    return std::chrono::duration<double>(Clock::now() - start).count();
}

std::vector<float> values_of(const ggml_tensor* tensor) {
    std::vector<float> values(static_cast<std::size_t>(ggml_nelements(tensor)));
    ggml_backend_tensor_get(tensor, values.data(), 0, values.size() * sizeof(float));
    return values;
}

std::vector<float> normal_values(std::int64_t count, unsigned seed) {
    std::vector<float> values(static_cast<std::size_t>(count));
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::ranges::generate(values, [&] { return normal(random); });
    return values;
}

const Kernel& kernel_named(const std::string& name) {
    for (const Kernel* kernel : usable_kernels()) {
        if (name == kernel->name)
            return *kernel;
    }
    throw Error("kernel.unknown", {{"wanted", name}, {"usable", kernel_names()}});
}

} // namespace twofold
