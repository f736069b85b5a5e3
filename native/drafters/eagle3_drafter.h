// Drafts with one block over the target's features: EAGLE-3.
#pragma once

#include "drafters/context_drafter.h"

#include <cstdint>
#include <vector>

namespace twofold {

// Li 2503.01840, by the library's architecture of that name: an encoder makes one feature of what three of
// the target's blocks take in, and a block reads each token beside the feature of the one before. Drafted
// tokens are read beside the drafter's own output; once accepted they are read again, beside the target's.
class Eagle3Drafter : public ContextDrafter {
  public:
    // `target`: what embeddings or an output head are borrowed from, if the drafter has none; it outlives
    // this. `target_width`: of its features. Throws Error "draft.features" (theirs, ours) for others, and
    // what ContextDrafter and open() throw.
    Eagle3Drafter(Model model, const ContextDrafterParams& params, std::int32_t target_tokens,
                  std::size_t target_width, llama_context* target, const std::atomic<bool>& cancelled);

    // The blocks whose inputs are a token's features, side by side.
    [[nodiscard]] std::vector<std::uint32_t> taps() const;
    [[nodiscard]] std::size_t feature_width() const override { return feature_width_; }
    void observe(std::span<const std::int32_t> tokens, std::span<const float> features) override;
    void forget(std::size_t length) override;
    void skip(std::size_t tokens) override;
    void suspend() override;

  protected:
    void prepare(llama_context_params& options) const override;
    void opened() override;
    bool evaluate(std::size_t first, std::span<const std::int32_t> tokens, bool drafted) override;
    [[nodiscard]] bool keeps_drafted() const override { return false; }
    [[nodiscard]] std::size_t readable_from() const override { return first_; }
    void dropped(std::size_t count) override;

  private:
    llama_context* target_;
    std::size_t feature_width_ = 0;
    std::size_t width_ = 0;       // of its own state
    std::size_t first_ = 0;       // observed tokens before those with features
    std::vector<float> features_; // of the tokens observed since, each one's of the token before it
    std::vector<float> state_;    // after the last token
};

} // namespace twofold
