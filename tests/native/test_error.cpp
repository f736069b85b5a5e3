// The native error's developer-facing text.
#include "error.h"

#include <doctest/doctest.h>

#include <cstring>

using twofold::Error;

TEST_CASE("an error's text names its code and every fact") {
    const Error error("disk.read_failed", {{"path", "/a b"}, {"offset", 4096}, {"gbps", 1.5}});
    CHECK(error.code() == "disk.read_failed");
    CHECK(std::strcmp(error.what(), "disk.read_failed gbps=1.5 offset=4096 path=/a b") == 0);
}

TEST_CASE("an error without facts is its code alone") {
    CHECK(std::strcmp(Error("stream.cancelled").what(), "stream.cancelled") == 0);
}
