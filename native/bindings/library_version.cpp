// Binds model/library_version.h.
#include "model/library_version.h"
#include "bindings.h"

#include <nanobind/stl/string.h>

namespace twofold::bindings {

void bind_library_version(nanobind::module_& m) {
    m.def("library_commit", &library_commit, "Commit of the loaded llama.cpp.");
    m.def("require_pinned_library", &require_pinned_library,
          "Raises NativeError library.wrong_version unless the pinned library is loaded.");
}

} // namespace twofold::bindings
