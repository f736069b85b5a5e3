// Binds kernels/choice.h and hook/product_hook.h.
#include "bindings.h"
#include "hook/product_hook.h"
#include "kernels/choice.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;

namespace twofold::bindings {

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
    m.def("kernel_products", &kernel_products, "Products that kernels of ours computed in this process.");
    m.attr("min_kernel_columns") = min_kernel_columns;
}

} // namespace twofold::bindings
