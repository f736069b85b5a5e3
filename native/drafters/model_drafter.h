// Drafts with a second, smaller model of the same vocabulary.
#pragma once

#include "drafters/context_drafter.h"

namespace twofold {

// Leviathan 2211.17192, Chen 2302.01318. What was drafted and accepted stays in its cache.
class ModelDrafter : public ContextDrafter {
  public:
    // Throws what ContextDrafter and open() throw.
    ModelDrafter(Model model, const ContextDrafterParams& params, std::int32_t target_tokens,
                 const std::atomic<bool>& cancelled);

  protected:
    bool evaluate(std::size_t first, std::span<const std::int32_t> tokens, bool drafted) override;
    [[nodiscard]] bool keeps_drafted() const override { return true; }
};

} // namespace twofold
