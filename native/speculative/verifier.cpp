// The walk: the target's draw for chosen children, rejection sampling for drawn ones.
#include "speculative/verifier.h"

#include "speculative/chances.h"

#include <algorithm>
#include <utility>

namespace twofold {

void Verification::enter(std::optional<std::size_t> node) {
    if (node)
        row_ = *node + 1;
    else
        left_ = true;
}

std::int32_t Verification::next(TargetChoice& target, std::mt19937_64& random) {
    if (const std::vector<float>* proposal = draft_.proposal(row_))
        return next_sampled(target, *proposal, random);
    const std::int32_t token = target.sample(row_);
    std::optional<std::size_t> followed;
    for (std::size_t i = row_; i < draft_.nodes.size() && !followed; ++i)
        if (draft_.nodes[i].parent + 1 == static_cast<std::int32_t>(row_) && draft_.nodes[i].token == token)
            followed = i;
    enter(followed);
    return token;
}

std::int32_t Verification::next_sampled(TargetChoice& target, const std::vector<float>& proposal,
                                        std::mt19937_64& random) {
    const std::vector<float> wanted = target.distribution(row_);
    std::vector<double> p(wanted.begin(), wanted.end());
    std::vector<double> q(proposal.begin(), proposal.end());
    q.resize(p.size(), 0.0);
    if (normalise(p) && normalise(q)) {
        for (std::size_t i = row_; i < draft_.nodes.size(); ++i) {
            const DraftNode& node = draft_.nodes[i];
            const auto token = static_cast<std::size_t>(node.token);
            if (node.parent + 1 != static_cast<std::int32_t>(row_) || token >= p.size())
                continue;
            if (uniform(random) * q[token] < p[token]) {
                target.accept(node.token);
                enter(i);
                return node.token;
            }
            std::vector<double> residual(p.size());
            for (std::size_t x = 0; x < p.size(); ++x)
                residual[x] = std::max(0.0, p[x] - q[x]);
            if (normalise(residual)) // else p equals q but for rounding, and p is as good
                p = std::move(residual);
            q[token] = 0;
            if (!normalise(q))
                break;
        }
    }
    const std::int32_t token = draw(p, random);
    target.accept(token);
    enter(std::nullopt);
    return token;
}

} // namespace twofold
