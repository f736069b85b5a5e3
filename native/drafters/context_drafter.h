// What drafters with a context of the library have in common: catching up, drafting node by node, going back.
#pragma once

#include "model/model.h"
#include "session/sampler.h"
#include "speculative/drafter.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

struct llama_batch;
struct llama_context;
struct llama_context_params;

namespace twofold {

struct ContextDrafterParams {
    std::uint32_t n_ctx = 0; // the target's; the drafter's is no longer than it was trained for
    std::int32_t n_threads = 1;
};

// The cache follows the observed tokens lazily, and what is drafted is taken back where it was not accepted.
class ContextDrafter : public Drafter {
  public:
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

  protected:
    // `target_tokens`: the size of the target's vocabulary. `cancelled` stops a pass that is under way.
    // Throws Error "draft.vocabulary" (theirs, ours). Whoever derives from it has to open().
    ContextDrafter(Model model, const ContextDrafterParams& params, std::int32_t target_tokens,
                   const std::atomic<bool>& cancelled);

    [[nodiscard]] const Model& model() const { return model_; }
    [[nodiscard]] llama_context* context() const { return context_.get(); }
    // Throws Error "context.failed".
    void open();
    // Of as many tokens as are held before. False if cancelled; throws Error "session.evaluation_failed".
    bool decode(const llama_batch& batch);
    // Likewise, by the library's encoder.
    bool encode(const llama_batch& batch);

    virtual void prepare(llama_context_params& options) const { (void) options; }
    virtual void opened() {}
    // Evaluates `tokens`, which are those observed (and not skipped) from `first` on, or a drafted one.
    virtual bool evaluate(std::size_t first, std::span<const std::int32_t> tokens, bool drafted) = 0;
    // Whether drafting leaves in the cache, for an accepted token, what reading it leaves there.
    [[nodiscard]] virtual bool keeps_drafted() const = 0;
    // The first of the observed tokens (and not skipped) that could still be read.
    [[nodiscard]] virtual std::size_t readable_from() const { return 0; }
    // The first `count` of them count as skipped now.
    virtual void dropped(std::size_t count) { (void) count; }

  private:
    struct FreeContext {
        void operator()(llama_context* context) const noexcept;
    };
    struct Guess {
        std::int32_t token = -1; // none: the logits are no numbers
        float confidence = 0;
        std::vector<float> distribution; // if drawn from it
    };

    void clear();
    void drop(std::size_t count);
    bool finished(std::int32_t result);
    bool catch_up();
    bool take_back(std::size_t length);
    void save();
    bool read(std::span<const std::int32_t> tokens, bool drafted);
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
