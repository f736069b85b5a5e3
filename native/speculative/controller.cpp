// Costs and acceptance as decaying means, the best length by expected tokens a second, and the ledger.
#include "speculative/controller.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace twofold {
namespace {

// Shares of an answer's plain time, and of its prompt's, that drafts may lose: below 1% together with what
// the estimates are wrong by.
constexpr double answer_share = 0.006;
constexpr double prompt_share = 0.002;
// Gains that a later bad stretch may cost, in plain passes.
constexpr double most_credit = 20;
// Before a width was measured, each further token is thought to cost this share of a plain pass.
constexpr double unknown_slope = 0.15;
constexpr std::size_t enough_plain = 3; // passes before a baseline is believed
constexpr double least_gain = 1.03;     // expected tokens a second against plain decoding
constexpr double memory = 48;           // scored tokens that an acceptance remembers
constexpr double prior_weight = 2;      // as many tokens count for the drafter's own confidence
constexpr double cost_weight = 0.15;
constexpr double free_draft = 0.002; // of a plain pass: need not be saved up for
constexpr std::size_t longest_pause = 4096;
constexpr double assumed_reading = 0.25; // of a step, for each of many tokens that a drafter reads at once
constexpr std::size_t least_read = 32;   // tokens of context that are worth drafting from

std::size_t bin_of(float confidence, std::size_t bins) {
    const auto scaled = static_cast<double>(std::clamp(confidence, 0.0F, 1.0F)) * static_cast<double>(bins);
    return std::min(static_cast<std::size_t>(scaled), bins - 1);
}

} // namespace

// A pass that another program interrupted tells little about the next: outliers count for a limited amount.
void Controller::Cost::add(double measured, double expected) {
    if (count > 2)
        measured = std::clamp(measured, seconds / 1.5, seconds * 1.5);
    else if (expected > 0)
        measured = std::clamp(measured, expected / 2, expected * 2);
    ++count;
    seconds += (measured - seconds) * std::max(cost_weight, 1.0 / static_cast<double>(count));
}

std::size_t Controller::length_class(std::size_t context) {
    return std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(context)), lengths - 1);
}

const Controller::Costs* Controller::nearest(std::size_t context) const {
    const std::size_t wanted = length_class(context);
    for (std::size_t distance = 0; distance < lengths; ++distance) {
        if (wanted >= distance && costs_[wanted - distance][0].count > 0)
            return &costs_[wanted - distance];
        if (wanted + distance < lengths && costs_[wanted + distance][0].count > 0)
            return &costs_[wanted + distance];
    }
    return nullptr;
}

double Controller::pass_seconds(std::size_t context, std::size_t drafts) const {
    const Costs* costs = nearest(context);
    if (!costs)
        return 0;
    const Cost* below = nullptr;
    const Cost* above = nullptr;
    for (std::size_t i = 0; i <= drafts; ++i)
        if ((*costs)[i].count > 0)
            below = &(*costs)[i];
    for (std::size_t i = drafts; i < costs->size() && !above; ++i)
        if ((*costs)[i].count > 0)
            above = &(*costs)[i];
    const auto at = [&](const Cost* cost) { return static_cast<double>(cost - costs->data()); };
    const auto wanted = static_cast<double>(drafts);
    const double plain = (*costs)[0].seconds;
    double seconds = below->seconds;
    if (above && above != below)
        seconds += (above->seconds - below->seconds) * (wanted - at(below)) / (at(above) - at(below));
    else if (below != above)
        seconds += (wanted - at(below)) *
                   std::max(unknown_slope * plain, at(below) > 0 ? (below->seconds - plain) / at(below) : 0);
    return std::max(seconds, plain); // a wider pass that seems cheaper is noise
}

std::size_t Controller::measured(std::size_t context, std::size_t drafts) const {
    return costs_[length_class(context)][std::min(drafts, max_draft)].count;
}

double Controller::acceptance(float confidence) const {
    const Acceptance& seen = acceptance_[bin_of(confidence, confidence_bins)];
    const double prior = std::clamp(static_cast<double>(confidence), 0.05, 0.95);
    return (seen.accepted + prior_weight * prior) / (seen.seen + prior_weight);
}

void Controller::start(double reading_seconds) {
    statistics_ = {};
    reading_seconds_ = reading_seconds;
    baseline_ = lost_ = 0;
    pause_ = 0;
    next_pause_ = 8;
}

double Controller::allowance() const {
    return answer_share * baseline_ + prompt_share * reading_seconds_ - lost_;
}

double Controller::draft_cost(double plain) const {
    return draft_steps_ == 0 ? assumed_draft_share_ * plain
                             : draft_seconds_ / static_cast<double>(draft_steps_);
}

double Controller::reading_cost(double plain) const {
    return observed_tokens_ == 0 ? assumed_draft_share_ * assumed_reading * plain
                                 : observe_seconds_ / static_cast<double>(observed_tokens_);
}

std::size_t Controller::affordable_reading(std::size_t context) const {
    const double cost = reading_cost(pass_seconds(context, 0));
    constexpr double most = 1 << 30;
    return static_cast<std::size_t>(cost > 0 ? std::clamp(allowance() / cost, 0.0, most) : most);
}

bool Controller::wants_draft(std::size_t context, std::size_t unread) {
    if (pause_ > 0) {
        --pause_;
        return false;
    }
    if (measured(context, 0) < enough_plain)
        return false;
    const double plain = pass_seconds(context, 0);
    const double cost =
        draft_cost(plain) + static_cast<double>(std::min(unread, least_read)) * reading_cost(plain);
    if (allowance() >= (cost < free_draft * plain ? 0 : cost))
        return true;
    if (lost_ <= 0)
        return false; // as soon as it is affordable
    pause_ = next_pause_;
    next_pause_ = std::min(2 * next_pause_, longest_pause);
    return false;
}

std::size_t Controller::choose(std::span<const float> confidences, std::size_t context,
                               std::size_t limit) const {
    if (measured(context, 0) < enough_plain)
        return 0;
    const double plain = pass_seconds(context, 0);
    const double draft_seconds = draft_cost(plain);
    double best_rate = least_gain / plain;
    std::size_t best = 0;
    double survival = 1;
    double expected = 1;
    for (std::size_t k = 1; k <= std::min({confidences.size(), limit, max_draft}); ++k) {
        survival *= acceptance(confidences[k - 1]);
        expected += survival;
        const double seconds = pass_seconds(context, k);
        if (seconds - plain > allowance())
            break;
        const double rate = expected / (seconds + draft_seconds);
        if (rate > best_rate) {
            best_rate = rate;
            best = k;
        }
    }
    return best;
}

bool Controller::worth_drafting(std::span<const float> confidences, std::size_t context,
                                std::size_t limit) const {
    if (confidences.empty() || measured(context, 0) < enough_plain)
        return false;
    const double plain = pass_seconds(context, 0);
    const double step = draft_cost(plain);
    const std::size_t known = confidences.size() - 1; // nodes, each of which took a step
    double survival = 1;
    double expected = 1;
    for (std::size_t i = 0; i < known; ++i)
        expected += survival *= acceptance(confidences[i]);
    // The step that told the last confidence is spent, whether its node is taken or not.
    const double as_is = expected / (pass_seconds(context, known) + static_cast<double>(known + 1) * step);
    const double ahead = acceptance(confidences[known]);
    for (std::size_t k = known + 1; k <= std::min(limit, max_draft); ++k) {
        expected += survival *= ahead;
        const double seconds = pass_seconds(context, k) + static_cast<double>(k) * step;
        if (seconds - plain > allowance())
            return false;
        if (expected / seconds > as_is * (known == 0 ? least_gain : 1))
            return true;
    }
    return false;
}

void Controller::drafted(double seconds, std::size_t steps) {
    draft_seconds_ += seconds;
    draft_steps_ += steps;
    statistics_.seconds += seconds;
    lost_ += seconds;
}

void Controller::observed(double seconds, std::size_t tokens) {
    if (tokens >= least_read) {
        observe_seconds_ += seconds;
        observed_tokens_ += tokens;
    }
    statistics_.seconds += seconds;
    lost_ += seconds;
}

void Controller::passed(std::size_t context, std::size_t drafts, double seconds) {
    drafts = std::min(drafts, max_draft);
    Costs& costs = costs_[length_class(context)];
    const Costs* known = nearest(context);
    if (known && costs[0].count == 0 && drafts == 0) { // a new length: wider passes cost more in proportion
        for (std::size_t i = 1; i < costs.size(); ++i)
            if ((*known)[i].count > 0)
                costs[i] = {.seconds = (*known)[i].seconds * seconds / (*known)[0].seconds, .count = 1};
    }
    costs[drafts].add(seconds, drafts == 0 ? 0 : pass_seconds(context, drafts));
    statistics_.seconds += seconds;
    if (drafts == 0)
        ++statistics_.plain_passes;
    else
        ++statistics_.verifications;
}

// By the estimates, not by the clock: a disturbance from outside is no loss of ours.
void Controller::written(std::size_t context, std::size_t drafts, std::size_t tokens) {
    drafts = std::min(drafts, max_draft);
    const double plain = pass_seconds(context, 0);
    const double base = static_cast<double>(tokens) * plain;
    baseline_ += base;
    lost_ += pass_seconds(context, drafts) - base;
    lost_ = std::max(lost_, -most_credit * plain);
    statistics_.baseline_seconds += base;
    statistics_.tokens += tokens;
    if (drafts == 0)
        return;
    const std::size_t accepted = std::min(tokens - 1, drafts);
    if (lost_ < 0)
        next_pause_ = 8;
    statistics_.drafted += drafts;
    statistics_.accepted += accepted;
    for (std::size_t i = 0; i < drafts; ++i)
        ++statistics_.drafted_at[i];
    for (std::size_t i = 0; i < accepted; ++i)
        ++statistics_.accepted_at[i];
}

void Controller::scored(std::span<const float> confidences, std::size_t accepted) {
    for (std::size_t i = 0; i < std::min(accepted + 1, confidences.size()); ++i) {
        Acceptance& seen = acceptance_[bin_of(confidences[i], confidence_bins)];
        seen.accepted = seen.accepted * (1 - 1 / memory) + (i < accepted ? 1 : 0);
        seen.seen = seen.seen * (1 - 1 / memory) + 1;
    }
}

} // namespace twofold
