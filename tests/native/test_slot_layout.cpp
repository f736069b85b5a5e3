// Placing file ranges into slots made of several pieces of memory.
#include "disk/aligned_memory.h"
#include "stream/slot_layout.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using namespace twofold;

namespace {

struct Pages {
    explicit Pages(std::size_t size) : memory(aligned_bytes(slot_alignment, size)), size(size) {}
    [[nodiscard]] Region region(std::size_t begin, std::size_t length) const {
        return {memory.get() + begin, length};
    }
    AlignedBytes memory;
    std::size_t size;
};

// The pages that each read may write.
std::vector<std::pair<std::uintptr_t, std::uintptr_t>> pages_written(const Placement& placement) {
    std::vector<std::pair<std::uintptr_t, std::uintptr_t>> pages;
    for (const PlacedRead& read : placement.reads) {
        const auto begin = reinterpret_cast<std::uintptr_t>(read.data);
        pages.emplace_back(begin / slot_alignment,
                           (begin + read.from.size + slot_alignment - 1) / slot_alignment);
    }
    std::ranges::sort(pages);
    return pages;
}

} // namespace

TEST_CASE("neighbours in the file are read at once and stay neighbours") {
    const Pages pages(1 << 20);
    const std::vector<FileRange> ranges{{0, 5000, 100}, {0, 5120, 64}, {0, 5184, 3000}};
    const auto placed = place(ranges, std::vector{pages.region(0, 1 << 20)});
    REQUIRE(placed);
    REQUIRE(placed->reads.size() == 1);
    CHECK(placed->reads[0].from.size == 3184);
    CHECK(placed->tensors[1] - placed->tensors[0] == 120);
}

TEST_CASE("addresses agree with file offsets modulo a page and reads own their pages") {
    std::mt19937 random(7);
    for (int round = 0; round < 200; ++round) {
        const Pages pages(1 << 20);
        std::vector<FileRange> ranges;
        std::uint64_t offset = random() % 100000;
        for (int i = 0; i < 7; ++i) {
            const std::size_t size = 1 + random() % 60000;
            ranges.push_back({random() % 2, offset, size});
            offset += size + random() % 20000;
        }
        const std::vector<Region> regions{pages.region(64, 300001), pages.region(300300, 250000),
                                          pages.region(600000, 400000)};
        const auto placed = place(ranges, regions);
        REQUIRE(placed);
        for (std::size_t i = 0; i < ranges.size(); ++i)
            CHECK(reinterpret_cast<std::uintptr_t>(placed->tensors[i]) % slot_alignment ==
                  ranges[i].offset % slot_alignment);
        const auto written = pages_written(*placed);
        for (std::size_t i = 1; i < written.size(); ++i)
            CHECK(written[i - 1].second <= written[i].first);
        for (const auto& [first, end] : written) {
            CHECK(std::ranges::any_of(regions, [&](const Region& region) {
                const auto begin = reinterpret_cast<std::uintptr_t>(region.begin);
                return first * slot_alignment >= begin && end * slot_alignment <= begin + region.size;
            }));
        }
    }
}

TEST_CASE("a block that does not fit is not placed") {
    const Pages pages(1 << 16);
    const std::vector<FileRange> ranges{{0, 0, (1 << 16) + 1}};
    CHECK_FALSE(place(ranges, std::vector{pages.region(0, 1 << 16)}));
}

TEST_CASE("a slot holds blocks of either kind and leaves the rest of the pool") {
    const Pages pages(1 << 20);
    const std::vector<std::vector<FileRange>> blocks{
        {{0, 0, 100000}, {0, 100000, 50000}}, {{0, 200000, 60000}, {0, 500000, 60000}}, {{0, 900000, 10}}};
    std::vector<Region> pool{pages.region(0, 120000), pages.region(131072, 500000)};
    const std::vector<Region> before = pool;
    const auto slot = take_slot(blocks, pool);
    REQUIRE(slot);
    for (const auto& block : blocks)
        CHECK(place(block, *slot));
    std::size_t total = 0;
    for (const Region& region : *slot)
        total += region.size;
    for (const Region& region : pool)
        total += region.size;
    CHECK(total == 620000);

    std::vector<Region> small{pages.region(0, 8192)};
    CHECK_FALSE(take_slot(blocks, small));
    CHECK(small == std::vector{pages.region(0, 8192)});
}

TEST_CASE("a slot that is taken holds every block, or none is taken") {
    // Found by random search: room made for the last block makes first fit fail for an earlier one.
    const std::vector<std::vector<FileRange>> blocks{
        {{0, 0, 8704},
         {0, 16896, 3584},
         {0, 28672, 3584},
         {0, 32256, 12288},
         {0, 52736, 10240},
         {0, 62976, 1024}},
        {{0, 64000, 14848}, {0, 87040, 14336}, {0, 101376, 6144}},
        {{0, 115712, 20480}, {0, 136192, 2048}}};
    const Pages pages(100 * slot_alignment);
    std::vector<Region> pool;
    std::size_t at = 0;
    for (const std::size_t count : {3U, 4U, 6U, 8U, 6U, 10U, 7U}) {
        pool.push_back(pages.region(at, count * slot_alignment));
        at += (count + 1) * slot_alignment;
    }
    const std::vector<Region> before = pool;
    const auto slot = take_slot(blocks, pool);
    if (slot) {
        for (const auto& ranges : blocks)
            CHECK(place(ranges, *slot));
    } else {
        CHECK(pool == before);
    }
}
