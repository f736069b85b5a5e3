// One registration function for each header that Python can reach.
#pragma once

#include <nanobind/nanobind.h>

namespace twofold::bindings {

void bind_cpu_backend(nanobind::module_& m);
void bind_dequantize(nanobind::module_& m);
void bind_devices(nanobind::module_& m);
void bind_disk(nanobind::module_& m);
void bind_error(nanobind::module_& m);
void bind_kernels(nanobind::module_& m);
void bind_library_version(nanobind::module_& m);
void bind_memory_estimate(nanobind::module_& m);
void bind_session(nanobind::module_& m);

} // namespace twofold::bindings
