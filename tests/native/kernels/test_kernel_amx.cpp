// What the AMX kernel leaves behind in the thread that it ran on.
#include "kernels/choice.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

using namespace twofold;

#if defined(__x86_64__)

namespace {

using Config = std::array<std::uint8_t, 64>;

Config tile_config() {
    alignas(64) Config config{};
    asm volatile("sttilecfg %0" : "=m"(config));
    return config;
}

// Tiles of 8 rows, as somebody else may want them.
Config others_config() {
    alignas(64) Config config{};
    config[0] = 1; // palette
    for (int tile = 0; tile < 8; ++tile) {
        config[16 + 2 * tile] = 32; // bytes of a row
        config[48 + tile] = 8;      // rows
    }
    return config;
}

} // namespace

TEST_CASE("somebody else's tile configuration is as it was after a product") {
    const auto kernels = usable_kernels();
    const auto amx = std::ranges::find(kernels, std::string_view("amx"), &Kernel::name);
    if (amx == kernels.end())
        return;

    CHECK(tile_config() == Config{});
    (*amx)->begin();
    CHECK(tile_config() != Config{});
    (*amx)->end();
    CHECK(tile_config() == Config{}); // nobody's: released

    alignas(64) const Config others = others_config();
    asm volatile("ldtilecfg %0" : : "m"(others));
    (*amx)->begin();
    CHECK(tile_config() != others);
    (*amx)->end();
    CHECK(tile_config() == others);
    asm volatile("tilerelease");
}

#endif
