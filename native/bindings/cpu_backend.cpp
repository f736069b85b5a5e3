// Binds hook/cpu_backend.h.
#include "hook/cpu_backend.h"
#include "bindings.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace twofold::bindings {

void bind_cpu_backend(nb::module_& m) {
    m.def("load_cpu_backend", &load_cpu_backend, "folder"_a, "wanted"_a = "",
          "Opens the best variant of the CPU backend in `folder`, or the wanted one; nothing where one is "
          "linked.");
    m.def(
        "cpu_variants",
        [](const std::string& folder) {
            std::vector<std::pair<std::string, int>> found;
            for (const CpuVariant& variant : cpu_variants(folder))
                found.emplace_back(variant.name, variant.score);
            return found;
        },
        "folder"_a,
        "(name, score) of the variants in `folder`, the best first; this processor cannot run 0.");
    m.def("cpu_variant", &cpu_variant, "The variant in use; empty where the backend is linked.");
}

} // namespace twofold::bindings
