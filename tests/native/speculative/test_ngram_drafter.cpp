// The n-gram drafter continues the longest earlier run, the most recent of equals.
#include "speculative/ngram_drafter.h"

#include <doctest/doctest.h>

#include <random>
#include <vector>

using twofold::NgramDrafter;
using Tokens = std::vector<std::int32_t>;

namespace {

Tokens drafted(NgramDrafter& drafter, std::size_t limit) {
    Tokens tokens;
    for (const auto& node : drafter.draft(limit, {}).nodes)
        tokens.push_back(node.token);
    return tokens;
}

Tokens after(const Tokens& context, std::size_t limit) {
    NgramDrafter drafter;
    drafter.observe(context, {});
    return drafted(drafter, limit);
}

// By looking everywhere.
NgramDrafter::Match searched(const Tokens& tokens) {
    NgramDrafter::Match best;
    for (std::size_t end = tokens.size() - 1; end-- > 0;) {
        std::size_t length = 0;
        while (length <= end && tokens[end - length] == tokens[tokens.size() - 1 - length])
            ++length;
        if (length >= 2 && length > best.length)
            best = {length, end + 1};
    }
    return best;
}

} // namespace

TEST_CASE("The longest run wins over a more recent shorter one") {
    CHECK(after({1, 2, 3, 50, 9, 2, 3, 60, 1, 2, 3}, 1) == Tokens{50});
}

TEST_CASE("Of runs as long as each other, the most recent is continued") {
    CHECK(after({2, 3, 50, 2, 3, 60, 9, 2, 3}, 2) == Tokens{60, 9});
}

TEST_CASE("Without an earlier run nothing is drafted") {
    CHECK(after({}, 4).empty());
    CHECK(after({7}, 4).empty());
    CHECK(after({1, 2, 3, 4, 2}, 4).empty());
}

TEST_CASE("A run that reaches the end of the context goes round") {
    CHECK(after({5, 6, 5, 6}, 5) == Tokens{5, 6, 5, 6, 5});
}

TEST_CASE("Longer runs are trusted more, and drafts are chains") {
    NgramDrafter drafter;
    drafter.observe(Tokens{1, 2, 3, 4, 5, 1, 2}, {});
    const auto draft = drafter.draft(3, {});
    REQUIRE(draft.nodes.size() == 3);
    CHECK(draft.is_chain());
    CHECK(draft.nodes[0].confidence < draft.nodes[1].confidence);
    CHECK(draft.nodes[2].confidence < 1);
}

TEST_CASE("What is observed piecewise, forgotten and observed again equals a search through everything") {
    std::mt19937 random(4);
    for (const int vocab : {2, 3, 12}) {
        NgramDrafter drafter;
        Tokens tokens;
        for (int step = 0; step < 600; ++step) {
            if (random() % 10 == 0 && !tokens.empty()) {
                tokens.resize(random() % tokens.size());
                drafter.forget(tokens.size());
            }
            Tokens more;
            for (std::size_t i = 0; i <= random() % 3; ++i)
                more.push_back(static_cast<std::int32_t>(random() % static_cast<unsigned>(vocab)));
            tokens.insert(tokens.end(), more.begin(), more.end());
            drafter.observe(more, {});
            REQUIRE(drafter.observed() == tokens.size());
            const auto wanted = searched(tokens);
            const auto found = drafter.match();
            REQUIRE(found.length == wanted.length);
            REQUIRE(found.next == wanted.next);
            const Tokens next = drafted(drafter, 1);
            if (wanted.length > 0)
                REQUIRE(next == Tokens{tokens[wanted.next]});
            else
                REQUIRE(next.empty());
        }
    }
}

TEST_CASE("A suspended drafter holds nothing, and catches up in one call") {
    NgramDrafter drafter;
    const Tokens tokens{1, 2, 3, 1, 2};
    drafter.observe(tokens, {});
    drafter.suspend();
    CHECK(drafter.observed() == 0);
    CHECK(drafter.draft(3, {}).empty());
    drafter.observe(tokens, {});
    CHECK(drafted(drafter, 1) == Tokens{3});
}

TEST_CASE("One token repeated for long is drafted at once") {
    NgramDrafter drafter;
    drafter.observe(Tokens(50'000, 3), {});
    CHECK(drafted(drafter, 2) == Tokens{3, 3});
}
