// Features are kept by position, the latest of them, and never those of tokens that are gone.
#include "speculative/feature_rows.h"

#include <doctest/doctest.h>

#include <algorithm>

using twofold::FeatureRows;

namespace {

void add(FeatureRows& rows, std::size_t position, std::size_t count) {
    const auto made = rows.add(position, count);
    REQUIRE(made.size() == count * rows.width());
    for (std::size_t i = 0; i < made.size(); ++i)
        made[i] = static_cast<float>(position + i / rows.width());
}

} // namespace

TEST_CASE("Rows are found by their positions, and later ones replace earlier ones") {
    FeatureRows rows(3);
    add(rows, 0, 5);
    add(rows, 5, 4);
    CHECK(rows.end() == 9);
    CHECK(rows.rows(4, 2)[0] == 4);
    CHECK(rows.rows(4, 2)[5] == 5);
    add(rows, 7, 1); // the rows of 7 and 8 were of drafts
    CHECK(rows.end() == 8);
    rows.truncate(2);
    CHECK(rows.end() == 2);
    add(rows, 2, 2);
    CHECK(rows.rows(0, 4)[11] == 3);
}

TEST_CASE("The oldest rows go") {
    FeatureRows rows(2, 10);
    for (std::size_t position = 0; position < 100; position += 5) {
        add(rows, position, 5);
        CHECK(rows.end() == position + 5);
        CHECK(rows.end() - rows.first() <= 20);
        CHECK(rows.end() - rows.first() >= std::min<std::size_t>(10, rows.end()));
        CHECK(rows.rows(rows.first(), 1)[0] == static_cast<float>(rows.first()));
    }
    add(rows, 100, 50); // a wide pass is kept whole until the next
    CHECK(rows.end() == 150);
}

TEST_CASE("After a gap, and after all is forgotten, rows begin anew") {
    FeatureRows rows(1);
    add(rows, 0, 3);
    add(rows, 7, 2);
    CHECK(rows.first() == 7);
    CHECK(rows.end() == 9);
    rows.truncate(4);
    CHECK(rows.end() == 4);
    add(rows, 4, 1);
    CHECK(rows.first() == 4);
    rows.truncate(0);
    add(rows, 0, 1);
    CHECK(rows.first() == 0);
}

TEST_CASE("Without a width there is nothing to keep") {
    FeatureRows rows;
    CHECK(rows.end() == 0);
    rows.truncate(0);
    CHECK(rows.first() == 0);
}
