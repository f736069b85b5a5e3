// The extension module `engine._native`: registers every binding.
#include "bindings.h"

NB_MODULE(_native, m) {
    m.doc() = "The native engine.";
    twofold::bindings::bind_cpu_backend(m);
    twofold::bindings::bind_dequantize(m);
    twofold::bindings::bind_devices(m);
    twofold::bindings::bind_disk(m);
    twofold::bindings::bind_error(m);
    twofold::bindings::bind_kernels(m);
    twofold::bindings::bind_library_version(m);
    twofold::bindings::bind_memory_estimate(m);
    twofold::bindings::bind_session(m);
}
