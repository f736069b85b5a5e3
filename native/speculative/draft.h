// A tree of guessed tokens, and what they were drawn from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace twofold {

// Tokens that one pass of the target verifies at most, its own next token not counted. Wider passes are no
// longer bound by memory on the processors measured.
inline constexpr std::size_t max_draft = 15;

struct DraftNode {
    std::int32_t token = 0;
    std::int32_t parent = -1; // an earlier node, or -1: follows the last token of the context
    float confidence = 0.0F; // the drafter's own estimate that the target accepts it after its parent, 0 to 1
};

// A chain is a tree with one child each. Row 0 is the last token of the context, row i + 1 is node i; the
// target's logits of a row say what follows it.
struct Draft {
    std::vector<DraftNode> nodes;
    // By row: the distribution over the vocabulary from which the row's children were drawn, in their order,
    // without replacement. Empty, or empty for a row: its children were chosen without chance.
    std::vector<std::vector<float>> proposals;
    std::size_t steps = 1; // passes of the drafter that it took

    [[nodiscard]] bool empty() const { return nodes.empty(); }
    [[nodiscard]] bool is_chain() const {
        for (std::size_t i = 0; i < nodes.size(); ++i)
            if (nodes[i].parent != static_cast<std::int32_t>(i) - 1)
                return false;
        return true;
    }
    [[nodiscard]] const std::vector<float>* proposal(std::size_t row) const {
        return row < proposals.size() && !proposals[row].empty() ? &proposals[row] : nullptr;
    }
    // Keeps the first `count` nodes. The choice of `count` must not depend on the tokens that it cuts.
    void truncate(std::size_t count) {
        if (count < nodes.size())
            nodes.resize(count);
        if (count + 1 < proposals.size())
            proposals.resize(count + 1);
    }
};

} // namespace twofold
