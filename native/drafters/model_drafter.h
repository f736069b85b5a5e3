// Drafts with a second, smaller model of the same vocabulary.
#pragma once

#include "model/model.h"
#include "session/sampler.h"
#include "speculative/drafter.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <vector>

struct llama_context;

namespace twofold {

struct ModelDrafterParams {
    ModelParams model;
    std::uint32_t n_ctx = 0; // the target's; the drafter's is no longer than it was trained for
    std::int32_t n_threads = 1;
};

// Leviathan 2211.17192, Chen 2302.01318. The drafter's cache follows the context lazily: what was drafted and
// accepted stays in it, the rest is taken back before the next draft.
class ModelDrafter : public Drafter {
  public:
    // `target_tokens`: the size of the target's vocabulary. `cancelled` stops a pass that is under way.
    // Throws Error "draft.vocabulary" (theirs, ours), "context.failed", and as Model does.
    ModelDrafter(const ModelDrafterParams& params, std::int32_t target_tokens,
                 const std::atomic<bool>& cancelled, const std::function<bool(float)>& progress);

    // For the drafts of the next answer. `drawn`: from the distribution that `sampling` makes of the
    // drafter's logits, without penalties; else the most likely tokens.
    void sample_as(const SamplerParams& sampling, bool drawn);

    [[nodiscard]] std::size_t observed() const override { return skipped_ + context_tokens_.size(); }
    void observe(std::span<const std::int32_t> tokens, std::span<const float> features) override;
    // A chain. A node's confidence is the greatest chance of any token there, whichever was drawn. Throws
    // Error "session.evaluation_failed"; what was drafted before a cancel is returned.
    Draft draft(std::size_t limit, const More& more) override;
    void forget(std::size_t length) override;
    void suspend() override;
    [[nodiscard]] bool can_skip() const override { return true; }
    void skip(std::size_t tokens) override;
    [[nodiscard]] std::size_t skipped() const override { return skipped_; }

    // Of weights, cache and compute buffers.
    [[nodiscard]] std::uint64_t bytes() const;
    // Of weights.
    [[nodiscard]] std::uint64_t weight_bytes() const;

  private:
    struct FreeContext {
        void operator()(llama_context* context) const noexcept;
    };
    struct Guess {
        std::int32_t token = -1; // none: the logits are no numbers
        float confidence = 0;
        std::vector<float> distribution; // if drawn from it
    };

    void open();
    void clear();
    bool catch_up();
    bool take_back(std::size_t length);
    void save();
    bool evaluate(std::span<const std::int32_t> tokens);
    [[nodiscard]] Guess guess();

    Model model_;
    std::uint32_t n_ctx_;
    std::int32_t n_threads_;
    const std::atomic<bool>& cancelled_;
    std::unique_ptr<llama_context, FreeContext> context_; // none while suspended
    std::unique_ptr<Sampler> sampler_;                    // if drafts are drawn
    std::mt19937_64 random_;
    std::size_t skipped_ = 0;                  // of the observed tokens, the first ones, never read
    std::vector<std::int32_t> context_tokens_; // observed after those
    std::vector<std::int32_t> held_;           // in the cache; drafted ones among them
    std::vector<std::uint8_t> saved_;          // recurrent state before the last draft
    std::size_t saved_length_ = 0;             // tokens in it
    std::size_t agreed_ = 0;                   // tokens that both are known to begin with
};

} // namespace twofold
