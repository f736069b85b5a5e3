// Binds disk/read_rate.h and disk/page_cache.h.
#include "bindings.h"
#include "disk/page_cache.h"
#include "disk/read_rate.h"

#include <nanobind/stl/filesystem.h>

namespace nb = nanobind;

namespace twofold::bindings {

void bind_disk(nb::module_& m) {
    nb::class_<ReadRate>(m, "ReadRate", "What measure_read_rate() measured.")
        .def_ro("bytes", &ReadRate::bytes)
        .def_ro("seconds", &ReadRate::seconds)
        .def_ro("direct", &ReadRate::direct);
    m.def("measure_read_rate", &measure_read_rate, nb::arg("path"), nb::arg("block_bytes"),
          nb::arg("in_flight"), nb::arg("seconds"), nb::arg("start") = 0,
          nb::call_guard<nb::gil_scoped_release>(),
          "Reads a file past the page cache, over again for about `seconds`, and returns a ReadRate.");
    m.def("drop_from_page_cache", &drop_from_page_cache, nb::arg("path"),
          nb::call_guard<nb::gil_scoped_release>(),
          "Takes a file out of the page cache; pages that a process has mapped stay.");
}

} // namespace twofold::bindings
