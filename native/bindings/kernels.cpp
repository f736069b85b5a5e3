// Binds kernels/choice.h, hook/product_hook.h and the benches of the hook.
#include "bindings.h"
#include "dot/row_dot.h"
#include "error.h"
#include "hook/attention_bench.h"
#include "hook/product_bench.h"
#include "hook/product_hook.h"
#include "kernels/choice.h"
#include "kernels/self_check.h"
#include "model/fast_converter.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>

namespace nb = nanobind;
using namespace nb::literals;

namespace twofold::bindings {
namespace {

nb::ndarray<nb::numpy, float, nb::ndim<1>> float_array(std::vector<float> values) {
    auto* held = new std::vector<float>(std::move(values));
    nb::capsule owner(held, [](void* data) noexcept { delete static_cast<std::vector<float>*>(data); });
    return {held->data(), {held->size()}, owner};
}

} // namespace

void bind_kernels(nb::module_& m) {
    m.def(
        "usable_kernels",
        [] {
            std::vector<std::string> names;
            for (const Kernel* kernel : usable_kernels())
                names.emplace_back(kernel->name);
            return names;
        },
        "Kernels that this processor can run, the fastest first.");
    m.def(
        "chosen_kernel",
        [] {
            const Kernel* kernel = chosen_kernel();
            return std::string(kernel ? kernel->name : "library");
        },
        "The kernel that a session will use, or \"library\".");
    m.def("disable_kernel", &disable_kernel, "name"_a, "Takes a kernel out of the usable ones.");
    m.def(
        "kernel_error",
        [](const std::string& name) {
            for (const Kernel* kernel : usable_kernels()) {
                if (name == kernel->name)
                    return std::fmax(kernel_error(*kernel), row_dot_error(*kernel));
            }
            throw Error("kernel.unknown", {{"wanted", name}, {"usable", kernel_names()}});
        },
        "name"_a, "Relative error against the scalar kernel. Run it in a process that may die.");
    m.attr("kernel_tolerance") = kernel_tolerance;
    m.def("kernel_products", &kernel_products, "Products that kernels of ours computed in this process.");
    m.def("set_autocast_columns", &set_autocast_columns, "type"_a, "columns"_a,
          "Autocast multiplies weights of a ggml type from that many columns on; 0: never.");
    m.def("kernel_attentions", &kernel_attentions,
          "Attentions that kernels of ours computed in this process.");
    nb::enum_<DecodeActivations>(m, "DecodeActivations")
        .value("library", DecodeActivations::library)
        .value("four_bits", DecodeActivations::four_bits)
        .value("exact", DecodeActivations::exact);
    m.def("set_decode_activations", &set_decode_activations, "kind"_a = nb::none(),
          "For measurements: what activations are that meet NVFP4 weights in decoding.");
    m.def("set_decode_kernel", &set_decode_kernel, "type"_a, "ours"_a,
          "Whether decoding multiplies weights of a ggml type by a dot product of ours.");
    m.def(
        "has_decode_kernel",
        [](int type) {
            const Kernel* kernel = chosen_kernel();
            return kernel && row_dot(type, *kernel) != nullptr;
        },
        "type"_a, "Whether the chosen kernel comes with a dot product for a ggml type.");
    using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
    using release = nb::call_guard<nb::gil_scoped_release>;
    nb::class_<ProductBench>(m, "ProductBench", "Times one matrix product as the CPU backend computes it.")
        .def(
            "__init__",
            [](ProductBench* self, int type, std::int64_t columns, std::int64_t n, std::int64_t k,
               const Bytes& weights, int threads) {
                new (self) ProductBench(type, columns, n, k, weights.data(), weights.size(), threads);
            },
            "type"_a, "m"_a, "n"_a, "k"_a, "weights"_a, "threads"_a)
        .def_prop_ro("buffers", &ProductBench::buffers)
        .def("library", &ProductBench::library, "buffer"_a, release(), "Seconds by the library.")
        .def("ours", &ProductBench::ours, "kernel"_a, "four_bits"_a = false, release(),
             "Seconds by a kernel of ours; four_bits: with activations rounded to them, for NVFP4.")
        .def_static("peak", &ProductBench::peak, "kernel"_a, release(),
                    "Operations a second of a kernel's instruction on registers, one thread.")
        .def(
            "results", [](const ProductBench& bench) { return float_array(bench.results()); },
            "The last product's results, float32, m x n values.");
    nb::class_<AttentionBench>(m, "AttentionBench", "Times one attention as the CPU backend computes it.")
        .def(
            "__init__",
            [](AttentionBench* self, std::int64_t tokens, std::int64_t cached, std::int64_t heads,
               std::int64_t key_heads, std::int64_t key_size, std::int64_t value_size, int type,
               int threads) {
                new (self) AttentionBench({.tokens = tokens,
                                           .cached = cached,
                                           .heads = heads,
                                           .key_heads = key_heads,
                                           .key_size = key_size,
                                           .value_size = value_size,
                                           .type = type},
                                          threads);
            },
            "tokens"_a, "cached"_a, "heads"_a, "key_heads"_a, "key_size"_a, "value_size"_a, "type"_a,
            "threads"_a)
        .def_prop_ro(
            "buffers", [](const AttentionBench&) { return std::vector<std::string>{"CPU"}; },
            "As of a product: the library computes attention from one kind of memory.")
        .def(
            "library", [](AttentionBench& bench, std::size_t) { return bench.library(); }, "buffer"_a = 0,
            release(), "Seconds by the library.")
        .def("ours", &AttentionBench::ours, "kernel"_a, release(), "Seconds by a kernel of ours.")
        .def_prop_ro("operations", &AttentionBench::operations)
        .def(
            "results", [](const AttentionBench& bench) { return float_array(bench.results()); },
            "The last results, float32, tokens x heads x value_size values.");
    m.def(
        "decode_weights",
        [](int type, const Bytes& weights, std::size_t count, bool fast) {
            const FloatConverter convert = fast ? fast_converter(type) : float_converter(type);
            std::vector<float> values(count);
            convert(weights.data(), values.data(), static_cast<std::int64_t>(count));
            return float_array(std::move(values));
        },
        "type"_a, "weights"_a, "count"_a, "fast"_a,
        "`count` weights as float32, by our conversion or the library's.");
    m.attr("min_kernel_columns") = min_kernel_columns;
}

} // namespace twofold::bindings
