// One context's drafting: a drafter, the controller that limits it, and the verification under way.
#pragma once

#include "speculative/controller.h"
#include "speculative/drafter.h"
#include "speculative/feature_rows.h"
#include "speculative/verifier.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <vector>

namespace twofold {

class Drafting {
  public:
    // `assumed_share`: what a draft may cost before one was made, in plain passes.
    explicit Drafting(std::unique_ptr<Drafter> drafter, double assumed_share = 0);

    // Verifies this many drafted tokens, or as many as there are, whatever it costs; 0: as many as pay.
    void always(std::size_t count) { always_ = count; }
    // A new answer begins; `seed` is for accepting, apart from the target's own random numbers.
    void start(double reading_seconds, std::uint32_t seed);
    // The tokens to evaluate in one pass after `token`, which follows `context`; at most `limit`. `features`
    // of the context, for a drafter that wants some.
    std::vector<std::int32_t> propose(std::span<const std::int32_t> context, std::int32_t token,
                                      std::size_t limit, const FeatureRows& features = FeatureRows());
    // The pass over `token` and the proposed ones is done.
    void passed(double seconds);
    // Chooses the next token. Before any pass, plainly.
    std::int32_t next(TargetChoice& target);
    // The next token will not be chosen by next(); what was drafted for it is void.
    void drop();
    // Only the first `length` tokens are still in the context.
    void forget(std::size_t length);

    // Of the answer up to the last drop() or propose().
    [[nodiscard]] const DraftStatistics& statistics() const { return controller_.statistics(); }

  private:
    void catch_up(std::span<const std::int32_t> context, std::int32_t token, const FeatureRows& features);

    std::unique_ptr<Drafter> drafter_;
    Controller controller_;
    std::mt19937_64 random_;
    std::optional<Verification> verification_;
    std::vector<float> confidences_;         // of the draft, verified or not
    std::optional<std::int32_t> unverified_; // the first token of a draft that no pass verifies
    std::size_t context_ = 0;                // tokens before the pass
    std::size_t written_ = 0;                // tokens chosen since
    std::size_t always_ = 0;
    bool passed_ = false;
};

} // namespace twofold
