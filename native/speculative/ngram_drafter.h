// Drafts by copying: what followed the last tokens when they stood in the context before.
#pragma once

#include "speculative/drafter.h"

#include <optional>
#include <unordered_map>
#include <vector>

namespace twofold {

// Prompt lookup over the whole context: of the earlier places that end with the longest run of the last
// tokens, the most recent one. Free of charge, and good for quotes, edits and lists.
class NgramDrafter : public Drafter {
  public:
    [[nodiscard]] std::size_t observed() const override { return tokens_.size(); }
    void observe(std::span<const std::int32_t> tokens, std::span<const float> features) override;
    // A chain. A node's confidence grows with the length of the run that it would be part of.
    Draft draft(std::size_t limit, const More& more) override;
    void forget(std::size_t length) override;
    void suspend() override;

    // The run that draft() goes on from: its length, and the position after it; 0 if there is none.
    struct Match {
        std::size_t length = 0;
        std::size_t next = 0;
    };
    [[nodiscard]] Match match() const;

  private:
    static constexpr std::size_t shortest = 2;  // tokens that have to agree
    static constexpr std::size_t longest = 256; // beyond which the most recent place wins
    static constexpr std::int32_t none = -1;

    [[nodiscard]] std::uint64_t key(std::size_t last) const;
    [[nodiscard]] std::size_t common_run(std::size_t earlier) const;

    std::vector<std::int32_t> tokens_;
    std::vector<std::int32_t> previous_; // by position: the one before with the same two last tokens
    std::unordered_map<std::uint64_t, std::int32_t> newest_;
    std::optional<Match> match_; // of the observed tokens, once known
};

} // namespace twofold
