// Tells a context which phase it evaluates, so that no graph of one phase serves another.
//
// The library reuses the previous graph when the next batch has the same shape, and installs the eval
// callback only when it builds a graph. This file alone touches the context's private parts.
#pragma once

#include <ggml-backend.h>

struct ggml_backend_sched;
struct llama_context;

namespace twofold {

enum class Phase : int {
    decode = 0,       // decoder's weights, no eval callback
    prefill = 1,      // prefiller's weights
    decoder_read = 2, // decoder's weights reading a prompt, watched for progress and cancel
};

// The next evaluation builds a new graph, with `callback` installed, unless the phase is unchanged.
void set_context_phase(llama_context* context, Phase phase, ggml_backend_sched_eval_callback callback,
                       void* data);

// What evaluates the context's graphs; it tells where a node's result is.
ggml_backend_sched* scheduler_of(const llama_context* context);

} // namespace twofold
