// Marks the phase in a parameter that the library compares before it reuses a graph.
#include "phase/context_phase.h"

#include <llama-context.h>
#include <llama-cparams.h>
#include <llama-ext.h>

namespace twofold {

void set_context_phase(llama_context* context, Phase phase, ggml_backend_sched_eval_callback callback,
                       void* data) {
    auto& parameters = const_cast<llama_cparams&>(context->get_cparams());
    parameters.cb_eval = callback;
    parameters.cb_eval_user_data = data;
    // Only multi-token-prediction graphs read this offset; any graph with another value is rebuilt.
    llama_set_nextn_layer_offset(context, static_cast<int>(phase));
}

ggml_backend_sched* scheduler_of(const llama_context* context) {
    return context->get_sched();
}

} // namespace twofold
