// What guesses the tokens that follow, from those that are known.
#pragma once

#include "speculative/draft.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace twofold {

// Asked with the confidences of a chain so far and of the node that would be next: whether to draft that one.
// Nothing about the node itself is known then but what it is drawn from.
using More = std::function<bool(std::span<const float> confidences)>;

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
    // The next tokens of the context, each with the features of the token before it, tokens.size() x
    // feature_width(): the first of all tokens has none and is skipped. After a suspension this is all that
    // was missed, in one call.
    virtual void observe(std::span<const std::int32_t> tokens, std::span<const float> features) = 0;
    // At most `limit` nodes that may follow what was observed. A drafter whose nodes cost time asks `more`
    // before each; refused the first, it may still guess it, for what that teaches.
    virtual Draft draft(std::size_t limit, const More& more) = 0;
    // `tokens` of the last draft were accepted and are now observed; by default, as any other tokens.
    virtual void commit(std::span<const std::int32_t> tokens, std::span<const float> features) {
        observe(tokens, features);
    }
    // Only the first `length` observed tokens are still in the context.
    virtual void forget(std::size_t length) = 0;
    // Frees what drafting needs: nothing is observed any more. The next observe() begins anew.
    virtual void suspend() = 0;
    // Whether it drafts from a context of which it has only seen the end.
    [[nodiscard]] virtual bool can_skip() const { return false; }
    // Observes the next `tokens` of the context without reading them, in place of any that it has read.
    virtual void skip(std::size_t tokens) { (void) tokens; }
    // Of the observed tokens, the first ones, which were not read.
    [[nodiscard]] virtual std::size_t skipped() const { return 0; }
};

} // namespace twofold
