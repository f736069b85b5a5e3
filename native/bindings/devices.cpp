// Binds model/devices.h and model/product_rate.h.
#include "model/devices.h"
#include "bindings.h"
#include "model/product_rate.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace twofold::bindings {

void bind_devices(nb::module_& m) {
    nb::class_<DeviceFacts>(m, "DeviceFacts", "A device of the library's registry; memory in bytes.")
        .def_ro("name", &DeviceFacts::name)
        .def_ro("description", &DeviceFacts::description)
        .def_ro("backend", &DeviceFacts::backend)
        .def_ro("kind", &DeviceFacts::kind)
        .def_ro("bus_id", &DeviceFacts::bus_id)
        .def_ro("memory_free", &DeviceFacts::memory_free)
        .def_ro("memory_total", &DeviceFacts::memory_total);
    m.def("list_devices", &list_devices, nb::call_guard<nb::gil_scoped_release>(),
          "The devices that the library can compute on.");

    nb::class_<ProductRate>(m, "ProductRate", "What measure_product() measured.")
        .def_ro("supported", &ProductRate::supported)
        .def_ro("seconds", &ProductRate::seconds)
        .def_ro("weight_bytes", &ProductRate::weight_bytes);
    m.def(
        "measure_product",
        [](std::size_t device, int type, std::int64_t columns, std::int64_t rows, std::int64_t tokens,
           std::int64_t matrices, int threads, double seconds) {
            nb::gil_scoped_release released;
            return measure_product({.device = device,
                                    .type = type,
                                    .columns = columns,
                                    .rows = rows,
                                    .tokens = tokens,
                                    .matrices = matrices,
                                    .threads = threads,
                                    .seconds = seconds});
        },
        "device"_a, "type"_a, "columns"_a, "rows"_a, "tokens"_a, "matrices"_a = 1, "threads"_a = 1,
        "seconds"_a = 0.2,
        "Times products of rows x columns weights of ggml type `type` with `tokens` tokens.");
}

} // namespace twofold::bindings
