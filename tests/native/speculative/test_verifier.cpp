// What is written with drafts has exactly the distribution of what is written without.
#include "speculative/verifier.h"

#include "chi_square.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

using twofold::Draft;
using twofold::TargetChoice;
using twofold::Verification;
using twofold::test::chi_square;

namespace {

constexpr int vocab = 16;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int samples = 6'000; // sanitizers watch memory; the plain build judges distributions
#else
constexpr int samples = 60'000;
#endif
using Tokens = std::vector<std::int32_t>;
using Chances = std::vector<float>;

// By the last two tokens of a context.
const std::vector<double>& logits_after(const Tokens& context, unsigned model, double sharpness) {
    static std::map<std::array<unsigned, 3>, std::vector<double>> known;
    const auto last = [&](std::size_t back) {
        return static_cast<unsigned>(context.size() >= back ? context[context.size() - back] : 99);
    };
    const std::array<unsigned, 3> key{model, last(2), last(1)};
    std::vector<double>& logits = known[key];
    if (logits.empty()) {
        std::seed_seq seed(key.begin(), key.end());
        std::mt19937 random(seed);
        std::normal_distribution<double> normal(0, sharpness);
        for (int token = 0; token < vocab; ++token)
            logits.push_back(normal(random));
    }
    return logits;
}

struct Chain { // a sampler chain in small: every kind of step that the engine's has
    double temperature = 1;
    int top_k = 0;
    double top_p = 1;
    double penalty = 0;   // subtracted once for each earlier occurrence
    bool grammar = false; // an even token follows an odd one, and the other way round

    // The chances of each token, from logits of the model alone.
    [[nodiscard]] Chances apply(const Tokens& context, std::vector<double> logits) const {
        for (const std::int32_t token : context)
            logits[static_cast<std::size_t>(token)] -= penalty;
        if (grammar && !context.empty())
            for (int token = 0; token < vocab; ++token)
                if (token % 2 == context.back() % 2)
                    logits[static_cast<std::size_t>(token)] = -HUGE_VAL;
        std::vector<int> order(vocab);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
            return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
        });
        Chances chances(vocab, 0.0F);
        if (temperature <= 0) {
            chances[static_cast<std::size_t>(order[0])] = 1;
            return chances;
        }
        if (top_k > 0)
            order.resize(static_cast<std::size_t>(top_k));
        double sum = 0;
        std::vector<double> weights;
        for (const int token : order) {
            weights.push_back(std::exp(
                (logits[static_cast<std::size_t>(token)] - logits[static_cast<std::size_t>(order[0])]) /
                temperature));
            sum += weights.back();
        }
        double kept = 0;
        std::size_t count = 0;
        while (count < weights.size() && kept < top_p * sum)
            kept += weights[count++];
        for (std::size_t i = 0; i < count; ++i)
            chances[static_cast<std::size_t>(order[i])] = static_cast<float>(weights[i] / kept);
        return chances;
    }
};

std::int32_t draw(const Chances& chances, std::mt19937_64& random) {
    double left = std::uniform_real_distribution<double>(0, 1)(random);
    std::int32_t last = 0;
    for (int token = 0; token < vocab; ++token) {
        if (chances[static_cast<std::size_t>(token)] <= 0)
            continue;
        last = token;
        left -= chances[static_cast<std::size_t>(token)];
        if (left < 0)
            break;
    }
    return last;
}

class Target : public TargetChoice {
  public:
    Target(const Chain& chain, std::mt19937_64& random) : chain_(chain), random_(random) {}
    [[nodiscard]] Chances chances() const { return chain_.apply(context, logits_after(context, 1, 1.5)); }
    std::int32_t sample(std::size_t) override {
        context.push_back(draw(chances(), random_));
        return context.back();
    }
    Chances distribution(std::size_t) override { return chances(); }
    void accept(std::int32_t token) override { context.push_back(token); }

    Tokens context;

  private:
    const Chain& chain_;
    std::mt19937_64& random_;
};

// The drafter's model: near the target, and wrong often enough.
Chances guess(const Tokens& context) {
    std::vector<double> logits = logits_after(context, 1, 1.5);
    const std::vector<double> other = logits_after(context, 2, 1.0);
    for (std::size_t i = 0; i < logits.size(); ++i)
        logits[i] += other[i];
    return Chain{}.apply({}, logits);
}

using Drafting = std::function<Draft(const Tokens&, std::mt19937_64&)>;

struct Shape { // children of each level
    std::vector<int> widths;
};

void grow(Draft& draft, const Shape& shape, bool sampled, const Tokens& context, std::int32_t parent,
          std::size_t level, std::mt19937_64& random) {
    if (level >= shape.widths.size())
        return;
    Chances q = guess(context);
    const auto row = static_cast<std::size_t>(parent + 1);
    if (sampled) {
        draft.proposals.resize(std::max(draft.proposals.size(), row + 1));
        draft.proposals[row] = q;
    }
    std::vector<std::int32_t> nodes;
    for (int i = 0; i < shape.widths[level]; ++i) {
        const std::int32_t token =
            sampled ? draw(q, random)
                    : static_cast<std::int32_t>(std::max_element(q.begin(), q.end()) - q.begin());
        q[static_cast<std::size_t>(token)] = 0;
        const float left = std::accumulate(q.begin(), q.end(), 0.0F);
        for (float& chance : q)
            chance /= left;
        nodes.push_back(static_cast<std::int32_t>(draft.nodes.size()));
        draft.nodes.push_back({token, parent, 0.5F});
    }
    for (const std::int32_t node : nodes) {
        Tokens longer = context;
        longer.push_back(draft.nodes[static_cast<std::size_t>(node)].token);
        grow(draft, shape, sampled, longer, node, level + 1, random);
    }
}

Drafting drafting(const Shape& shape, bool sampled) {
    return [=](const Tokens& context, std::mt19937_64& random) {
        Draft draft;
        grow(draft, shape, sampled, context, -1, 0, random);
        return draft;
    };
}

constexpr std::array<std::int32_t, 2> prompt{3, 7};

std::vector<double> exact(const Chain& chain, int length) {
    std::mt19937_64 unused;
    std::vector<double> joint{1.0};
    std::vector<Tokens> contexts{Tokens(prompt.begin(), prompt.end())};
    for (int i = 0; i < length; ++i) {
        std::vector<double> next;
        std::vector<Tokens> longer;
        for (std::size_t at = 0; at < joint.size(); ++at) {
            Target target(chain, unused);
            target.context = contexts[at];
            const Chances chances = target.chances();
            for (int token = 0; token < vocab; ++token) {
                next.push_back(joint[at] * chances[static_cast<std::size_t>(token)]);
                longer.push_back(contexts[at]);
                longer.back().push_back(token);
            }
        }
        joint = std::move(next);
        contexts = std::move(longer);
    }
    return joint;
}

struct Written {
    std::vector<int> counts; // of each sequence
    double tau = 0;          // tokens a verification
};

Written write(const Chain& chain, const Drafting& drafting, int length, unsigned seed) {
    std::mt19937_64 target_random(seed);
    std::mt19937_64 draft_random(seed + 1);
    std::mt19937_64 accept_random(seed + 2);
    Written written;
    written.counts.resize(static_cast<std::size_t>(std::pow(vocab, length)));
    int tokens = 0;
    int verifications = 0;
    for (int sample = 0; sample < samples; ++sample) {
        Target target(chain, target_random);
        target.context.assign(prompt.begin(), prompt.end());
        const std::size_t end = prompt.size() + static_cast<std::size_t>(length);
        while (target.context.size() < end) {
            Verification verification(drafting(target.context, draft_random));
            ++verifications;
            while (!verification.left() && target.context.size() < end) {
                (void) verification.next(target, accept_random);
                ++tokens;
            }
        }
        std::size_t cell = 0;
        for (std::size_t i = prompt.size(); i < end; ++i)
            cell = cell * vocab + static_cast<std::size_t>(target.context[i]);
        ++written.counts[cell];
    }
    written.tau = static_cast<double>(tokens) / verifications;
    return written;
}

const std::vector<std::pair<std::string, Chain>> chains{
    {"greedy", {.temperature = 0}},
    {"plain", {}},
    {"hot", {.temperature = 2}},
    {"truncated", {.temperature = 0.7, .top_k = 6, .top_p = 0.9}},
    {"penalties", {.temperature = 1, .penalty = 1.5}},
    {"grammar", {.temperature = 1.3, .top_k = 5, .penalty = 0.5, .grammar = true}},
};

const std::vector<std::pair<std::string, Shape>> shapes{{"chain", {{1, 1, 1}}}, {"tree", {{3, 2, 1}}}};

} // namespace

TEST_CASE("Every chain, shape and kind of proposal writes the target's own distribution") {
    unsigned seed = 100;
    for (const auto& [chain_name, chain] : chains)
        for (const auto& [shape_name, shape] : shapes)
            for (const bool sampled : {false, true}) {
                CAPTURE(chain_name);
                CAPTURE(shape_name);
                CAPTURE(sampled);
                const Written written = write(chain, drafting(shape, sampled), 2, seed += 10);
                const auto result = chi_square(exact(chain, 2), written.counts);
                CAPTURE(result.statistic);
                CAPTURE(result.critical);
                CHECK(result.fits());
                if (sampled) // a choice may never be what the target draws
                    CHECK(written.tau > 1.02);
            }
}

TEST_CASE("Three tokens of a sampled tree have the target's joint distribution") {
    const Chain chain{.temperature = 0.8, .penalty = 0.7};
    const Written written = write(chain, drafting({{2, 2, 1}}, true), 3, 5);
    CHECK(chi_square(exact(chain, 3), written.counts).fits());
}

TEST_CASE("A draft that is cut by the chance of its own token is found out") {
    const auto whole = drafting({{1, 1}}, true);
    const auto biased = [&](const Tokens& context, std::mt19937_64& random) {
        Draft draft = whole(context, random);
        const Chances& q = draft.proposals[0];
        if (q[static_cast<std::size_t>(draft.nodes[0].token)] < 0.25F)
            draft.nodes.clear(), draft.proposals.clear();
        return draft;
    };
    const Chain chain;
    const auto result = chi_square(exact(chain, 2), write(chain, biased, 2, 9).counts);
    CHECK(result.statistic > 3 * result.critical);
}

TEST_CASE("A draft that is cut by what is known before its token is drawn is exact") {
    const auto whole = drafting({{1, 1}}, true);
    const auto cut = [&](const Tokens& context, std::mt19937_64& random) {
        Draft draft = whole(context, random);
        const Chances& q = draft.proposals[0];
        if (*std::max_element(q.begin(), q.end()) < 0.5F)
            draft.truncate(1);
        return draft;
    };
    const Chain chain;
    CHECK(chi_square(exact(chain, 2), write(chain, cut, 2, 9).counts).fits());
}

TEST_CASE("Accepting what the target only finds likely is found out") {
    const auto always = [](const Chain& chain, unsigned seed) {
        std::mt19937_64 random(seed);
        std::vector<int> counts(vocab);
        for (int sample = 0; sample < samples; ++sample) {
            Target target(chain, random);
            target.context.assign(prompt.begin(), prompt.end());
            const std::int32_t guessed = draw(guess(target.context), random);
            const Chances p = target.chances();
            const bool typical = p[static_cast<std::size_t>(guessed)] > 0.05F;
            ++counts[static_cast<std::size_t>(typical ? guessed : target.sample(0))];
        }
        return counts;
    };
    CHECK_FALSE(chi_square(exact(Chain{}, 1), always(Chain{}, 3)).fits());
}

TEST_CASE("Chosen drafts leave the tokens of a seed as they are") {
    for (const double temperature : {0.0, 1.0}) {
        const Chain chain{.temperature = temperature, .penalty = 0.3};
        std::mt19937_64 plain_random(11);
        Target plain(chain, plain_random);
        plain.context.assign(prompt.begin(), prompt.end());
        for (int i = 0; i < 200; ++i)
            (void) plain.sample(0);

        std::mt19937_64 target_random(11);
        std::mt19937_64 other(12);
        Target target(chain, target_random);
        target.context.assign(prompt.begin(), prompt.end());
        while (target.context.size() < plain.context.size()) {
            Verification verification(drafting({{3, 2, 2}}, false)(target.context, other));
            while (!verification.left() && target.context.size() < plain.context.size())
                (void) verification.next(target, other);
        }
        CHECK(target.context == plain.context);
    }
}

TEST_CASE("An empty draft gives the target's own token") {
    const Chain chain{.temperature = 0};
    std::mt19937_64 random(1);
    Target target(chain, random);
    Verification verification{Draft{}};
    const std::int32_t token = verification.next(target, random);
    CHECK(verification.left());
    CHECK(target.context == Tokens{token});
}

TEST_CASE("A drafted token outside the vocabulary is never accepted") {
    const Chain chain;
    std::mt19937_64 random(1);
    for (const bool sampled : {false, true}) {
        Target target(chain, random);
        Draft draft{.nodes = {{1'000'000, -1, 1.0F}}, .proposals = {}};
        if (sampled)
            draft.proposals = {Chances(vocab, 1.0F / vocab)};
        Verification verification(draft);
        CHECK(verification.next(target, random) < vocab);
        CHECK(verification.left());
    }
}
