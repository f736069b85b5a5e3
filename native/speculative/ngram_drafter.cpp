// Places with the same two last tokens are linked; the longest run among them is looked for backwards.
#include "speculative/ngram_drafter.h"

#include <algorithm>

namespace twofold {

std::uint64_t NgramDrafter::key(std::size_t last) const {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(tokens_[last - 1])) << 32 |
           static_cast<std::uint32_t>(tokens_[last]);
}

void NgramDrafter::observe(std::span<const std::int32_t> tokens, std::span<const float>) {
    for (const std::int32_t token : tokens) {
        // A run that goes on as it did before is still the longest, and its place the most recent of those.
        if (match_ && match_->length > 0 && match_->length < longest && tokens_[match_->next] == token)
            match_ = Match{match_->length + 1, match_->next + 1};
        else
            match_.reset();
        tokens_.push_back(token);
        const std::size_t last = tokens_.size() - 1;
        previous_.push_back(none);
        if (last == 0)
            continue;
        const auto [at, first] = newest_.try_emplace(key(last), static_cast<std::int32_t>(last));
        if (!first) {
            previous_[last] = at->second;
            at->second = static_cast<std::int32_t>(last);
        }
    }
}

std::size_t NgramDrafter::common_run(std::size_t earlier) const {
    const std::size_t last = tokens_.size() - 1;
    const std::size_t most = std::min(earlier + 1, longest);
    std::size_t length = shortest; // linked places agree in as many
    while (length < most && tokens_[earlier - length] == tokens_[last - length])
        ++length;
    return length;
}

NgramDrafter::Match NgramDrafter::match() const {
    Match best;
    if (tokens_.empty())
        return best;
    for (std::int32_t at = previous_.back(); at != none; at = previous_[static_cast<std::size_t>(at)]) {
        const auto earlier = static_cast<std::size_t>(at);
        const std::size_t length = common_run(earlier);
        if (length > best.length)
            best = {length, earlier + 1};
        if (length == longest)
            break;
    }
    return best;
}

Draft NgramDrafter::draft(std::size_t limit, const More&) {
    Draft draft;
    if (!match_)
        match_ = match();
    if (match_->length == 0)
        return draft;
    for (std::size_t i = 0; i < limit; ++i) {
        // A run that reaches the end of the context repeats what it has drafted.
        const std::size_t from = match_->next + i;
        const std::int32_t token =
            from < tokens_.size() ? tokens_[from] : draft.nodes[from - tokens_.size()].token;
        const auto run = static_cast<float>(match_->length + i);
        draft.nodes.push_back(
            {.token = token, .parent = static_cast<std::int32_t>(i) - 1, .confidence = run / (run + 2)});
    }
    return draft;
}

void NgramDrafter::forget(std::size_t length) {
    if (length >= tokens_.size())
        return;
    match_.reset();
    while (tokens_.size() > length) {
        const std::size_t last = tokens_.size() - 1;
        if (last > 0) {
            if (previous_[last] == none)
                newest_.erase(key(last));
            else
                newest_[key(last)] = previous_[last];
        }
        tokens_.pop_back();
        previous_.pop_back();
    }
}

void NgramDrafter::suspend() {
    tokens_ = {};
    previous_ = {};
    newest_ = {};
    match_.reset();
}

} // namespace twofold
