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

// Knows the text that comes, and what it was made to read of the context.
class Prophet : public twofold::Drafter {
  public:
    explicit Prophet(Tokens text) : text_(std::move(text)) {}
    [[nodiscard]] std::size_t observed() const override { return skipped_ + read_.size(); }
    void observe(std::span<const std::int32_t> tokens, std::span<const float>) override {
        read_.insert(read_.end(), tokens.begin(), tokens.end());
    }
    twofold::Draft draft(std::size_t limit, const twofold::More& more) override {
        twofold::Draft draft;
        std::vector<float> confidences;
        while (draft.nodes.size() < limit && observed() + draft.nodes.size() < text_.size()) {
            confidences.push_back(0.9F);
            if (!more(confidences))
                break;
            draft.nodes.push_back({.token = text_[observed() + draft.nodes.size()],
                                   .parent = static_cast<std::int32_t>(draft.nodes.size()) - 1,
                                   .confidence = 0.9F});
        }
        draft.steps = std::max<std::size_t>(confidences.size(), 1);
        return draft;
    }
    void forget(std::size_t length) override {
        skipped_ = std::min(skipped_, length);
        read_.resize(length - skipped_);
    }
    void suspend() override { forget(0); }
    [[nodiscard]] bool can_skip() const override { return true; }
    void skip(std::size_t tokens) override {
        read_.clear();
        skipped_ += tokens;
    }
    [[nodiscard]] std::size_t skipped() const override { return skipped_; }
    [[nodiscard]] const Tokens& read() const { return read_; }

  private:
    Tokens text_;
    Tokens read_;
    std::size_t skipped_ = 0;
};

} // namespace

TEST_CASE("A drafter is made to read no more of a context than was gained, and more of it by and by") {
    const Tokens all = repeated(0, 700, 1300);
    auto owned = std::make_unique<Prophet>(all);
    const Prophet& prophet = *owned;
    Drafting drafting(std::move(owned), 0.2); // reading is thought to take a twentieth of a second a token
    const Tokens prompt(all.begin(), all.begin() + 1000);
    Tokens text(all.begin() + 1000, all.begin() + 1100);
    CHECK(write(drafting, prompt, text, 1000) == text); // 2 s of which may be lost: 40 tokens
    CHECK(prophet.skipped() < 1000);
    CHECK(prophet.read().size() >= 32);
    CHECK(prophet.read() == Tokens(all.begin() + static_cast<std::ptrdiff_t>(prophet.skipped()),
                                   all.begin() + static_cast<std::ptrdiff_t>(prophet.observed())));
    CHECK(drafting.statistics().accepted + 15 > drafting.statistics().drafted); // but for the end
    CHECK(drafting.statistics().tau() > 4);
}

TEST_CASE("A drafter that may cost what it likes reads all of the context") {
    const Tokens all = repeated(0, 700, 1300);
    auto owned = std::make_unique<Prophet>(all);
    const Prophet& prophet = *owned;
    Drafting drafting(std::move(owned), 1);
    drafting.always(4);
    drafting.start(0, 1);
    const Tokens context(all.begin(), all.begin() + 1000);
    CHECK(drafting.propose(context, all[1000], 8) == Tokens(all.begin() + 1001, all.begin() + 1005));
    CHECK(prophet.skipped() == 0);
    CHECK(prophet.read().size() == 1001);
}

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
