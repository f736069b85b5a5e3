// Tokens are all that it reads.
#include "drafters/model_drafter.h"

#include <llama.h>

#include <utility>

namespace twofold {

ModelDrafter::ModelDrafter(Model model, const ContextDrafterParams& params, std::int32_t target_tokens,
                           const std::atomic<bool>& cancelled)
    : ContextDrafter(std::move(model), params, target_tokens, cancelled) {
    open();
}

bool ModelDrafter::evaluate(std::size_t, std::span<const std::int32_t> tokens, bool) {
    return decode(llama_batch_get_one(const_cast<std::int32_t*>(tokens.data()),
                                      static_cast<std::int32_t>(tokens.size())));
}

} // namespace twofold
