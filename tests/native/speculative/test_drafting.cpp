// Drafting writes the target's tokens, keeps its books, and learns from drafts that no pass verified.
#include "speculative/drafting.h"
#include "speculative/ngram_drafter.h"

#include <doctest/doctest.h>

#include <memory>
#include <vector>

using twofold::Drafting;
using twofold::NgramDrafter;
using twofold::TargetChoice;
using Tokens = std::vector<std::int32_t>;

namespace {

// Writes a text that is known beforehand.
class Script : public TargetChoice {
  public:
    explicit Script(Tokens text) : text_(std::move(text)) {}
    std::int32_t sample(std::size_t) override { return text_[at_++]; }
    std::vector<float> distribution(std::size_t) override { return {}; }
    void accept(std::int32_t) override {}
    [[nodiscard]] bool done() const { return at_ == text_.size(); }

  private:
    Tokens text_;
    std::size_t at_ = 0;
};

// As a session does it; passes take a second, and a tenth more for each drafted token.
Tokens write(Drafting& drafting, Tokens context, const Tokens& text, double reading) {
    Script script(text);
    drafting.start(reading, 1);
    Tokens written{drafting.next(script)};
    Tokens ahead;
    while (!script.done()) {
        if (!ahead.empty() && ahead.front() == written.back()) {
            ahead.erase(ahead.begin());
        } else {
            ahead = drafting.propose(context, written.back(), twofold::max_draft);
            drafting.passed(1 + 0.1 * static_cast<double>(ahead.size()));
        }
        context.push_back(written.back());
        written.push_back(drafting.next(script));
    }
    drafting.drop();
    return written;
}

Tokens repeated(std::int32_t first, std::size_t period, std::size_t count) {
    Tokens tokens;
    for (std::size_t i = 0; i < count; ++i)
        tokens.push_back(first + static_cast<std::int32_t>(i % period));
    return tokens;
}

} // namespace

TEST_CASE("A quoted text takes a fraction of its passes, and its books say so") {
    Drafting drafting(std::make_unique<NgramDrafter>());
    const Tokens prompt = repeated(0, 50, 100);
    const Tokens text = repeated(0, 50, 300);
    CHECK(write(drafting, prompt, text, 100) == text);
    const auto& done = drafting.statistics();
    CHECK(done.tokens == text.size() - 1);
    CHECK(done.plain_passes + done.verifications < 100);
    CHECK(done.tau() > 4);
    CHECK(done.seconds < 0.6 * done.baseline_seconds);
}

TEST_CASE("Drafts that would have been wrong are noticed without a pass") {
    Drafting drafting(std::make_unique<NgramDrafter>());
    Tokens text;
    for (int i = 0; i < 300; ++i) // each pair of tokens comes back, and goes on otherwise
        for (const int token : {1, 2, 10 + i})
            text.push_back(token);
    CHECK(write(drafting, {5}, text, 0) == text);
    const auto& done = drafting.statistics();
    CHECK(done.seconds <= 1.01 * done.baseline_seconds);
}

TEST_CASE("What the context forgets is not drafted from") {
    Drafting drafting(std::make_unique<NgramDrafter>());
    drafting.always(3);
    drafting.start(0, 1);
    CHECK(drafting.propose(Tokens{1, 2, 3, 4, 1}, 2, 8) == Tokens{3, 4, 1});
    drafting.forget(3);
    CHECK(drafting.propose(Tokens{1, 2, 3, 9, 1}, 2, 8) == Tokens{3, 9, 1});
    CHECK(drafting.propose(Tokens{1, 2, 3, 9, 1, 2, 3}, 9, 1) == Tokens{1});
    CHECK(drafting.propose(Tokens{1, 2, 3, 9, 1, 2, 3, 9}, 1, 0).empty());
}
