// Accepts drafted tokens so that what is written is distributed as if nothing had been drafted.
#pragma once

#include "speculative/draft.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

namespace twofold {

// The target's choice after one row of a draft: its whole sampler chain, on the tokens accepted so far.
class TargetChoice {
  public:
    TargetChoice() = default;
    virtual ~TargetChoice() = default;
    TargetChoice(const TargetChoice&) = delete;
    TargetChoice& operator=(const TargetChoice&) = delete;

    // Draws from the chain with the chain's own random numbers, as plain decoding does, and accepts the
    // token.
    virtual std::int32_t sample(std::size_t row) = 0;
    // The chain's distribution over the vocabulary; sums to 1.
    virtual std::vector<float> distribution(std::size_t row) = 0;
    // Tells the chain a token that was chosen by its distribution.
    virtual void accept(std::int32_t token) = 0;
};

// Walks down one draft, a token at a time: nothing is decided about a token before the one above it is
// accepted, so that a stop, or a grammar that begins in between, is as exact as the rest.
class Verification {
  public:
    explicit Verification(Draft draft) : draft_(std::move(draft)) {}

    // The row whose logits choose the next token.
    [[nodiscard]] std::size_t row() const { return row_; }
    // The last token was none of the draft's, so that no row tells what follows it.
    [[nodiscard]] bool left() const { return left_; }
    [[nodiscard]] const Draft& draft() const { return draft_; }

    // Chooses the token after row(), and goes there if it was drafted.
    // Without proposals: the target's own draw decides, and the child that equals it is followed; the tokens
    // are those of plain decoding with the same seed. With proposals: each child x in turn is accepted with
    // probability min(1, p(x) / q(x)); after a rejection p becomes the normalised (p - q)+, and q loses x
    // (Leviathan 2211.17192; siblings without replacement: Chen 2302.01318, SpecInfer 2305.09781).
    std::int32_t next(TargetChoice& target, std::mt19937_64& random);

  private:
    std::int32_t next_sampled(TargetChoice& target, const std::vector<float>& proposal,
                              std::mt19937_64& random);
    void enter(std::optional<std::size_t> node);

    Draft draft_;
    std::size_t row_ = 0;
    bool left_ = false;
};

} // namespace twofold
