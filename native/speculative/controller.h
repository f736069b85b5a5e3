// Decides, before each pass, how many drafted tokens are worth verifying; none if it does not pay.
#pragma once

#include "speculative/draft.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace twofold {

// What one answer's drafts did. Position 0 is the first drafted token of a pass.
struct DraftStatistics {
    std::uint64_t tokens = 0;        // written
    std::uint64_t plain_passes = 0;  // without a draft
    std::uint64_t verifications = 0; // passes with one
    std::uint64_t drafted = 0;       // tokens verified
    std::uint64_t accepted = 0;      // of those
    std::array<std::uint64_t, max_draft> drafted_at{};
    std::array<std::uint64_t, max_draft> accepted_at{};
    double seconds = 0;          // of all passes, drafting included
    double baseline_seconds = 0; // that the same tokens would have taken without drafts

    // Mean number of tokens that a verification yields, the target's own included; 0 without any.
    [[nodiscard]] double tau() const {
        return verifications == 0 ? 0
                                  : 1 + static_cast<double>(accepted) / static_cast<double>(verifications);
    }
};

// Knows what passes of each width take, by length of context, and how often tokens of each confidence are
// accepted. A ledger keeps an answer's total time within 1% of plain decoding's: what is risked in a pass, if
// all of its draft is rejected, never exceeds what is left of the budget and of what drafts have gained.
class Controller {
  public:
    // `assumed_draft_share`: what a step of the drafter is thought to cost before one was made, in plain
    // passes.
    explicit Controller(double assumed_draft_share = 0) : assumed_draft_share_(assumed_draft_share) {}

    // A new answer begins, after a prompt that took `reading_seconds` to read.
    void start(double reading_seconds);

    // False before there is a baseline, and while drafting itself has cost too much for what it brought; then
    // for more passes each time. `unread`: tokens that the drafter has to read before.
    [[nodiscard]] bool wants_draft(std::size_t context, std::size_t unread = 0);
    // Tokens of the context that the drafter may read now.
    [[nodiscard]] std::size_t affordable_reading(std::size_t context) const;
    // Of a chain whose nodes cost a step each: whether one more pays, with the confidence that comes last.
    // Knows nothing of the node, nor of those after it, so that drawn nodes may be cut by it.
    [[nodiscard]] bool worth_drafting(std::span<const float> confidences, std::size_t context,
                                      std::size_t limit) const;
    // How many of a chain's tokens to verify, at most `limit`. `context` in tokens.
    [[nodiscard]] std::size_t choose(std::span<const float> confidences, std::size_t context,
                                     std::size_t limit) const;

    void drafted(double seconds, std::size_t steps = 1);
    // What the drafter took to catch up with the context.
    void observed(double seconds, std::size_t tokens = 0);
    // A pass over 1 + `drafts` tokens after `context` ones. At its end, when the last of its tokens is
    // chosen, `written` tokens have come of it: at least one.
    void passed(std::size_t context, std::size_t drafts, double seconds);
    void written(std::size_t context, std::size_t drafts, std::size_t tokens);
    // Of a chain with these confidences the first `accepted` were right, and the next one, if any, was wrong.
    // Also for drafts that were not verified but turned out right or wrong in time.
    void scored(std::span<const float> confidences, std::size_t accepted);

    [[nodiscard]] const DraftStatistics& statistics() const { return statistics_; }
    // Seconds of a pass over 1 + `drafts` tokens; 0 before any pass was measured.
    [[nodiscard]] double pass_seconds(std::size_t context, std::size_t drafts) const;
    // Passes of this width that were measured near this length.
    [[nodiscard]] std::size_t measured(std::size_t context, std::size_t drafts) const;
    [[nodiscard]] double acceptance(float confidence) const;

  private:
    static constexpr std::size_t lengths = 24; // powers of two of context lengths
    static constexpr std::size_t confidence_bins = 16;
    struct Cost {
        double seconds = 0;
        std::size_t count = 0;
        // `expected` bounds what one first measurement may claim.
        void add(double measured, double expected);
    };
    struct Acceptance {
        double accepted = 0;
        double seen = 0;
    };
    using Costs = std::array<Cost, max_draft + 1>;

    [[nodiscard]] static std::size_t length_class(std::size_t context);
    [[nodiscard]] const Costs* nearest(std::size_t context) const;
    [[nodiscard]] double allowance() const;
    [[nodiscard]] double draft_cost(double plain) const;
    [[nodiscard]] double reading_cost(double plain) const;

    std::array<Costs, lengths> costs_{};
    std::array<Acceptance, confidence_bins> acceptance_{};
    DraftStatistics statistics_;
    double reading_seconds_ = 0;
    double baseline_ = 0; // of this answer so far
    double lost_ = 0;     // against it; negative: gained
    double assumed_draft_share_;
    double draft_seconds_ = 0; // of `draft_steps_`, over all answers
    std::size_t draft_steps_ = 0;
    double observe_seconds_ = 0; // of `observed_tokens_`, over all answers
    std::size_t observed_tokens_ = 0;
    std::size_t pause_ = 0;
    std::size_t next_pause_ = 8;
};

} // namespace twofold
