// Where a tensor's values lie.
#pragma once

#include <ggml-backend.h>
#include <ggml.h>

namespace twofold {

inline ggml_backend_buffer_t buffer_of(const ggml_tensor* tensor) {
    return tensor->view_src ? tensor->view_src->buffer : tensor->buffer;
}

// In ordinary memory, as the file has them: not repacked for some kernel of the library.
inline bool in_plain_memory(const ggml_tensor* tensor) {
    ggml_backend_buffer_t buffer = buffer_of(tensor);
    return !buffer || ggml_backend_buffer_is_host(buffer);
}

} // namespace twofold
