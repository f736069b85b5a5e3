// Binds model/memory_estimate.h.
#include "model/memory_estimate.h"
#include "bindings.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace twofold::bindings {

void bind_memory_estimate(nb::module_& m) {
    nb::class_<MemoryPart>(m, "MemoryPart", "Bytes in one kind of buffer.")
        .def_ro("buffer", &MemoryPart::buffer)
        .def_ro("host", &MemoryPart::host)
        .def_ro("weights", &MemoryPart::weights)
        .def_ro("context", &MemoryPart::context)
        .def_ro("compute", &MemoryPart::compute);
    m.def(
        "estimate_memory",
        [](std::vector<std::string> paths, std::uint32_t n_ctx, std::uint32_t micro_batch,
           std::int32_t n_gpu_layers, std::int32_t type_k, std::int32_t type_v,
           std::vector<std::string> devices) {
            nb::gil_scoped_release released;
            return estimate_memory({.paths = std::move(paths),
                                    .n_ctx = n_ctx,
                                    .micro_batch = micro_batch,
                                    .n_gpu_layers = n_gpu_layers,
                                    .devices = std::move(devices),
                                    .type_k = type_k,
                                    .type_v = type_v});
        },
        "paths"_a, "n_ctx"_a, "micro_batch"_a, "n_gpu_layers"_a, "type_k"_a, "type_v"_a,
        "devices"_a = std::vector<std::string>(),
        "What a model and its context would allocate, without allocating it.");
}

} // namespace twofold::bindings
