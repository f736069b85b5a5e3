// Small graphs on the CPU backend, for timing one operation.
#pragma once

#include <ggml-backend.h>
#include <ggml.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace twofold {

struct Kernel;

struct FreeContext {
    void operator()(ggml_context* context) const noexcept { ggml_free(context); }
};
struct FreeBuffer {
    void operator()(ggml_backend_buffer_t buffer) const noexcept { ggml_backend_buffer_free(buffer); }
};
struct FreeBackend {
    void operator()(ggml_backend_t backend) const noexcept { ggml_backend_free(backend); }
};
using Context = std::unique_ptr<ggml_context, FreeContext>;
using Buffer = std::unique_ptr<ggml_backend_buffer, FreeBuffer>;
using Backend = std::unique_ptr<ggml_backend, FreeBackend>;

// Room for some tensors and one graph, without memory for their values.
Context make_graph_context();

Backend make_cpu_backend(int threads);

// A graph of `result` and what it is made of, in the context that holds them.
ggml_cgraph* graph_of(ggml_context* context, ggml_tensor* result);

// Computes the graph. Throws Error "session.evaluation_failed".
double seconds_of(const Backend& backend, ggml_cgraph* graph);

std::vector<float> values_of(const ggml_tensor* tensor);

// The same numbers each time: `count` of a normal distribution.
std::vector<float> normal_values(std::int64_t count, unsigned seed);

// Throws Error "kernel.unknown".
const Kernel& kernel_named(const std::string& name);

} // namespace twofold
