// Keeps the drafter level with the context, and the controller's books in order.
#include "speculative/drafting.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace twofold {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

} // namespace

// NOLINTNEXTLINE(bugprone-random-generator-seed): start() seeds it
Drafting::Drafting(std::unique_ptr<Drafter> drafter, double assumed_share)
    : drafter_(std::move(drafter)), controller_(assumed_share) {}

void Drafting::start(double reading_seconds, std::uint32_t seed) {
    verification_.reset();
    random_.seed(seed + 0x9e3779b97f4a7c15ULL);
    controller_.start(reading_seconds);
}

std::vector<std::int32_t> Drafting::propose(std::span<const std::int32_t> context, std::int32_t token,
                                            std::size_t limit, const FeatureRows& features) {
    drop();
    Draft draft;
    confidences_.clear();
    context_ = context.size();
    bool asked = false;
    bool wanted = false;
    const std::size_t unread = drafter_->can_skip() ? context_ - std::min(context_, drafter_->observed()) : 0;
    const bool readable =
        drafter_->feature_width() == 0 || (context_ > features.first() && context_ <= features.end());
    if (limit > 0 && readable && (always_ > 0 || controller_.wants_draft(context_, unread))) {
        catch_up(context, token, features);
        const auto more = [&](std::span<const float> confidences) {
            const bool pays = always_ > 0 || controller_.worth_drafting(confidences, context_, limit);
            asked = true;
            wanted = wanted || pays;
            return pays;
        };
        const auto drafting = Clock::now();
        draft = drafter_->draft(always_ > 0 ? std::min(always_, limit) : limit, more);
        controller_.drafted(seconds_since(drafting), draft.steps);
        for (const DraftNode& node : draft.nodes)
            confidences_.push_back(node.confidence);
    }
    std::size_t count = confidences_.size();
    if (always_ > 0)
        count = std::min(always_, count);
    else if (!asked)
        count = controller_.choose(confidences_, context_, limit);
    else if (!wanted)
        count = 0;
    unverified_.reset();
    if (count == 0 && !draft.empty())
        unverified_ = draft.nodes[0].token;
    draft.truncate(count);
    std::vector<std::int32_t> tokens;
    for (const DraftNode& node : draft.nodes)
        tokens.push_back(node.token);
    verification_.emplace(std::move(draft));
    return tokens;
}

void Drafting::catch_up(std::span<const std::int32_t> context, std::int32_t token,
                        const FeatureRows& features) {
    const auto started = Clock::now();
    if (drafter_->can_skip()) {
        // Only as much is read as gains have paid for; more of it when they have paid for twice as much.
        const std::size_t oldest = drafter_->feature_width() > 0 ? features.first() + 1 : 0;
        const std::size_t affordable =
            std::min(always_ > 0 ? context_ : controller_.affordable_reading(context_),
                     context_ - std::min(context_, oldest));
        const std::size_t missing = context_ - std::min(context_, drafter_->observed());
        const std::size_t skipped = drafter_->skipped();
        if (missing > affordable ||
            (skipped > 0 && std::min(context_, 2 * (context_ - skipped)) <= affordable)) {
            drafter_->forget(0);
            drafter_->skip(context_ - std::min(context_, affordable));
        }
    }
    const std::size_t known = drafter_->observed();
    if (known <= context_) {
        std::vector<std::int32_t> tokens(context.begin() + static_cast<std::ptrdiff_t>(known), context.end());
        tokens.push_back(token);
        drafter_->observe(tokens, drafter_->feature_width() > 0 ? features.rows(known - 1, tokens.size())
                                                                : std::span<const float>());
    }
    controller_.observed(seconds_since(started), context_ - std::min(context_, known));
}

void Drafting::passed(double seconds) {
    controller_.passed(context_, verification_ ? verification_->draft().nodes.size() : 0, seconds);
    passed_ = true;
    written_ = 0;
}

std::int32_t Drafting::next(TargetChoice& target) {
    if (!verification_)
        return target.sample(0);
    const std::int32_t token = verification_->next(target, random_);
    ++written_;
    if (unverified_)
        controller_.scored({confidences_.data(), 1}, *unverified_ == token ? 1 : 0);
    unverified_.reset();
    return token;
}

void Drafting::drop() {
    if (verification_ && passed_ && written_ > 0) {
        const std::size_t drafted = verification_->draft().nodes.size();
        controller_.written(context_, drafted, written_);
        const std::size_t accepted = verification_->row();
        // An answer that ends early says nothing about the tokens that it did not reach.
        const std::size_t seen = verification_->left() ? drafted : accepted;
        if (drafted > 0)
            controller_.scored({confidences_.data(), seen}, accepted);
    }
    verification_.reset();
    unverified_.reset();
    passed_ = false;
}

void Drafting::forget(std::size_t length) {
    drop();
    if (drafter_->observed() > length)
        drafter_->forget(length);
}

} // namespace twofold
