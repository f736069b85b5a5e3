// What guesses the tokens that follow, from those that are known.
#pragma once

#include "speculative/draft.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace twofold {

// Belongs to one context, and knows a prefix of it: observed() tokens.
class Drafter {
  public:
    Drafter() = default;
    virtual ~Drafter() = default;
    Drafter(const Drafter&) = delete;
    Drafter& operator=(const Drafter&) = delete;

    // Floats of the target's features that observe() wants with each token; 0: none.
    [[nodiscard]] virtual std::size_t feature_width() const { return 0; }
    [[nodiscard]] virtual std::size_t observed() const = 0;
    // The next tokens of the context with their features, tokens.size() x feature_width(). After a suspension
    // this is all that was missed, in one call.
    virtual void observe(std::span<const std::int32_t> tokens, std::span<const float> features) = 0;
    // At most `limit` nodes that may follow what was observed.
    virtual Draft draft(std::size_t limit) = 0;
    // `tokens` of the last draft were accepted and are now observed; by default, as any other tokens.
    virtual void commit(std::span<const std::int32_t> tokens, std::span<const float> features) {
        observe(tokens, features);
    }
    // Only the first `length` observed tokens are still in the context.
    virtual void forget(std::size_t length) = 0;
    // Frees what drafting needs: nothing is observed any more. The next observe() begins anew.
    virtual void suspend() = 0;
};

} // namespace twofold
