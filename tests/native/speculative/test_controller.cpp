// The controller gains where drafts are right, and never loses more than 1%, whatever it is shown.
#include "speculative/controller.h"

#include <doctest/doctest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

using twofold::Controller;
using twofold::max_draft;

namespace {

struct World {
    double slope = 0.1;       // of a plain pass, for each further token
    double per_context = 0;   // growth of all passes a token of context
    double draft_seconds = 0; // a draft's own cost
    double noise = 0;
    double step_seconds = 0;    // of a drafter that takes a step for each node
    double reading_seconds = 0; // of such a drafter, for each token of the context
    bool seen_later = true;     // drafts that are not verified are scored by what is then written
    std::function<bool(int)> right = [](int) { return true; }; // by position in the answer
    std::function<float(int)> confidence = [](int) { return 0.8F; };
};

struct Outcome {
    double seconds = 0;
    double plain_seconds = 0;
    [[nodiscard]] double ratio() const { return seconds / plain_seconds; }
};

// Drafts node by node, after reading what is affordable. Returns the nodes drafted.
std::size_t draft_in_steps(Controller& controller, const World& world, std::size_t context, int at,
                           std::size_t& unread, std::vector<float>& confidences, double& seconds) {
    const std::size_t read = std::min(unread, controller.affordable_reading(context));
    controller.observed(static_cast<double>(read) * world.reading_seconds, read);
    seconds += static_cast<double>(read) * world.reading_seconds;
    unread = 0;
    std::size_t nodes = 0;
    std::size_t steps = 0;
    while (nodes < max_draft) {
        ++steps;
        confidences.push_back(world.confidence(at + static_cast<int>(nodes)));
        if (!controller.worth_drafting(confidences, context, max_draft))
            break;
        ++nodes;
    }
    controller.drafted(static_cast<double>(steps) * world.step_seconds, steps);
    seconds += static_cast<double>(steps) * world.step_seconds;
    return nodes;
}

// Writes an answer as a session does, on a clock of its own.
Outcome write(Controller& controller, const World& world, int tokens, double reading = 0.5,
              std::size_t prompt = 500) {
    std::mt19937 random(7);
    std::normal_distribution<double> normal(1, world.noise);
    controller.start(reading);
    Outcome outcome;
    const auto seconds = [&](std::size_t context, std::size_t drafts) {
        return 0.01 * (1 + world.per_context * static_cast<double>(context)) *
               (1 + world.slope * static_cast<double>(drafts));
    };
    int at = 0;
    std::size_t unread = prompt;
    while (at < tokens) {
        const std::size_t context = prompt + static_cast<std::size_t>(at);
        std::vector<float> confidences;
        std::size_t drafts = 0;
        if (world.step_seconds > 0) {
            if (controller.wants_draft(context, unread))
                drafts = draft_in_steps(controller, world, context, at, unread, confidences, outcome.seconds);
            else
                ++unread;
        } else if (controller.wants_draft(context)) {
            for (std::size_t i = 0; i < max_draft; ++i)
                confidences.push_back(world.confidence(at + static_cast<int>(i)));
            if (world.draft_seconds > 0)
                controller.drafted(world.draft_seconds);
            outcome.seconds += world.draft_seconds;
            drafts = controller.choose(confidences, context, max_draft);
        }
        std::size_t accepted = 0;
        while (accepted < confidences.size() && world.right(at + static_cast<int>(accepted)))
            ++accepted;
        const double took = seconds(context, drafts) * std::max(0.5, normal(random));
        controller.passed(context, drafts, took);
        outcome.seconds += seconds(context, drafts);
        const std::size_t written = std::min(accepted, drafts) + 1;
        controller.written(context, drafts, written);
        if (drafts > 0)
            controller.scored({confidences.data(), drafts}, std::min(accepted, drafts));
        else if (world.seen_later && !confidences.empty())
            controller.scored({confidences.data(), 1}, std::min<std::size_t>(accepted, 1));
        for (std::size_t i = 0; i < written; ++i)
            outcome.plain_seconds += seconds(prompt + static_cast<std::size_t>(at++), 0);
    }
    return outcome;
}

bool never(int) {
    return false;
}

} // namespace

TEST_CASE("Drafts that are right make an answer several times faster") {
    Controller controller;
    CHECK(write(controller, {}, 600).ratio() < 0.3);
    CHECK(controller.statistics().tau() > 8);
    CHECK(controller.statistics().accepted_at[0] == controller.statistics().drafted_at[0]);
}

TEST_CASE("No trace costs more than 1% of its time") {
    std::mt19937 random(3);
    std::vector<bool> coins(4000);
    for (auto&& coin : coins)
        coin = random() % 2 == 0;
    const std::vector<std::pair<std::string, World>> worlds{
        {"never right, and sure of it", {.right = never, .confidence = [](int) { return 0.99F; }}},
        {"never right, never told", {.seen_later = false, .right = never}},
        {"right until it is trusted", {.right = [](int at) { return at < 150; }}},
        {"right in turns", {.right = [](int at) { return at / 60 % 2 == 0; }}},
        {"right in short turns", {.right = [](int at) { return at % 3 != 0; }}},
        {"coins", {.slope = 0.5, .right = [&](int at) { return coins[static_cast<std::size_t>(at)]; }}},
        {"compute-bound", {.slope = 1, .right = [](int at) { return at % 4 != 0; }}},
        {"noisy clock", {.noise = 0.1, .right = [](int at) { return at % 5 == 0; }}},
        {"costly drafts", {.draft_seconds = 0.002, .seen_later = false, .right = never}},
        {"steps, never right", {.step_seconds = 0.001, .reading_seconds = 1e-4, .right = never}},
        {"steps, never right, and sure of it",
         {.step_seconds = 0.004,
          .reading_seconds = 1e-3,
          .right = never,
          .confidence = [](int) { return 0.99F; }}},
        {"steps, right until trusted",
         {.step_seconds = 0.001, .reading_seconds = 1e-4, .right = [](int at) { return at < 150; }}},
        {"steps that cost more than a pass", {.step_seconds = 0.02, .reading_seconds = 2e-3}},
        {"growing context", {.per_context = 0.001, .right = [](int at) { return at % 100 < 30; }}},
    };
    for (const auto& [name, world] : worlds)
        for (const int tokens : {5, 100, 3000}) {
            CAPTURE(name);
            CAPTURE(tokens);
            Controller controller(world.draft_seconds > 0 ? 0.2 : 100 * world.step_seconds);
            const Outcome outcome = write(controller, world, tokens);
            CHECK(outcome.seconds <= 1.01 * outcome.plain_seconds + 0.01 * 0.5); // with the prompt's time
            const Outcome again = write(controller, world, tokens, 0);           // with what it knows by now
            CAPTURE(again.ratio());
            CHECK(again.seconds <= 1.01 * again.plain_seconds);
        }
}

TEST_CASE("A drafter that takes a step for each node gains where it is right, and no longer than it is") {
    Controller always(0.1);
    CHECK(write(always, {.step_seconds = 0.001, .reading_seconds = 1e-4}, 600).ratio() < 0.5);
    Controller mostly(0.1);
    const World three{.step_seconds = 0.001,
                      .reading_seconds = 1e-4,
                      .right = [](int at) { return at % 4 != 0; },
                      .confidence = [](int at) { return at % 4 != 0 ? 0.9F : 0.1F; }};
    CHECK(write(mostly, three, 600).ratio() < 0.75);
    const auto& done = mostly.statistics();
    CHECK(done.accepted > 0.8 * static_cast<double>(done.drafted)); // stopped before the doubtful ones
}

TEST_CASE("What may be read of a context is what gains have paid for") {
    Controller controller(0.1);
    controller.start(10);
    CHECK_FALSE(controller.wants_draft(1000, 1000)); // no baseline
    for (int i = 0; i < 5; ++i) {
        controller.passed(1000, 0, 0.01);
        controller.written(1000, 0, 1);
    }
    CHECK(controller.wants_draft(1000, 1000));
    const std::size_t before = controller.affordable_reading(1000);
    controller.observed(0.015, 100);
    const std::size_t after = controller.affordable_reading(1000);
    CHECK(before > 0);
    CHECK(after > 0);
    CHECK(after < 100); // 5 ms are left, and a token is known to take 0.15
    controller.observed(0.005, 100);
    CHECK_FALSE(controller.wants_draft(1000, 1000));
}

TEST_CASE("Without a baseline nothing is drafted") {
    Controller controller;
    controller.start(10);
    const std::vector<float> sure(8, 0.99F);
    CHECK(controller.choose(sure, 100, 8) == 0);
    controller.passed(100, 0, 0.01);
    CHECK(controller.choose(sure, 100, 8) == 0);
}

TEST_CASE("Sure tokens are verified further than doubtful ones") {
    Controller controller;
    controller.start(100);
    for (int i = 0; i < 5; ++i) {
        controller.passed(100, 0, 0.01);
        controller.written(100, 0, 1);
    }
    const std::vector<float> sure(max_draft, 0.95F);
    std::vector<float> fading;
    for (std::size_t i = 0; i < max_draft; ++i)
        fading.push_back(i < 3 ? 0.9F : 0.1F);
    const std::size_t far = controller.choose(sure, 100, max_draft);
    const std::size_t near = controller.choose(fading, 100, max_draft);
    CHECK(far > near);
    CHECK(near >= 1);
    CHECK(controller.choose(sure, 100, 2) == 2);
}

TEST_CASE("Where a wider pass costs as much as its tokens, nothing is drafted") {
    Controller controller;
    controller.start(0.1);
    const World world{.slope = 1.0, .right = [](int at) { return at % 2 == 0; }};
    (void) write(controller, world, 500);
    CHECK(controller.statistics().verifications < 10);
}

TEST_CASE("What a confidence is worth is learned from what became of it") {
    Controller controller;
    const double before = controller.acceptance(0.9F);
    for (int i = 0; i < 50; ++i)
        controller.scored(std::vector<float>{0.9F}, 0);
    CHECK(controller.acceptance(0.9F) < 0.1);
    CHECK(before > 0.8);
    CHECK(controller.acceptance(0.5F) == doctest::Approx(0.5));
}

TEST_CASE("A drafter that costs more than it brings is paused, longer each time") {
    Controller controller;
    controller.start(0);
    int asked = 0;
    for (int step = 0; step < 2000; ++step) {
        if (controller.wants_draft(100)) {
            ++asked;
            controller.drafted(0.005);
        }
        controller.passed(100, 0, 0.01);
        controller.written(100, 0, 1);
    }
    CHECK(asked >= 2);
    CHECK(asked < 40);
}
