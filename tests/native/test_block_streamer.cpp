// The ring of slots: every hazard, with slow disks, slow compute, faults and cancels at random moments.
#include "scratch_file.h"
#include "stream/block_streamer.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <future>
#include <numeric>
#include <random>
#include <semaphore>

using namespace twofold;
using namespace twofold::test;

namespace {

constexpr std::size_t page = direct_alignment;

// A prefiller in a file: blocks of different sizes, two tensors each, with gaps between them.
struct Blocks {
    std::vector<std::vector<Segment>> of; // without destinations
    std::size_t slot_size = 0;
    std::size_t file_size = 0;

    explicit Blocks(std::size_t count, std::size_t scale = 6000) {
        std::mt19937 random(static_cast<unsigned>(count));
        std::size_t end = 137;
        for (std::size_t block = 0; block < count; ++block) {
            std::vector<Segment> segments;
            std::size_t needed = 0;
            for (int tensor = 0; tensor < 2; ++tensor) {
                end += random() % 3000;
                const std::size_t size = 1 + scale / 4 + random() % scale;
                segments.push_back({.file = 0, .offset = end, .size = size});
                needed = (needed + end % page + size + page - 1) / page * page;
                end += size;
            }
            slot_size = std::max(slot_size, needed);
            of.push_back(std::move(segments));
        }
        file_size = end; // the last block ends with the file, at an odd size
    }

    [[nodiscard]] std::uint64_t bytes(std::size_t block) const {
        return std::accumulate(of[block].begin(), of[block].end(), std::uint64_t{0},
                               [](std::uint64_t sum, const Segment& s) { return sum + s.size; });
    }

    [[nodiscard]] std::vector<Segment> into(std::size_t block, std::byte* slot) const {
        std::vector<Segment> segments = of[block];
        std::byte* place = slot;
        for (auto& segment : segments) {
            segment.dst = place + segment.offset % page;
            place += (segment.offset % page + segment.size + page - 1) / page * page;
        }
        return segments;
    }
};

struct Setup {
    std::size_t blocks = 5;
    std::size_t slots = 2;
    ReadAt read_at = {};
    std::filesystem::path folder = std::filesystem::current_path();
    std::size_t trace_limit = 0;
    std::size_t scale = 6000;
};

// A file of blocks, a reader, slots in memory, and a streamer over them.
struct Stand {
    explicit Stand(Setup setup)
        : blocks(setup.blocks, setup.scale), slots(setup.slots), file(blocks.file_size, setup.folder),
          memory(slots * blocks.slot_size),
          reader({file.path()}, {.request_bytes = 2 * page, .read_at = setup.read_at}),
          streamer(
              reader, setup.blocks, slots,
              [this](std::size_t block, std::size_t slot) { return blocks.into(block, at(slot)); },
              setup.trace_limit) {}

    [[nodiscard]] std::byte* at(std::size_t slot) const { return memory.data() + slot * blocks.slot_size; }

    // Whether `slot` holds exactly the bytes of `block`.
    [[nodiscard]] bool good(std::size_t block, std::size_t slot) const {
        const auto segments = blocks.into(block, at(slot));
        return std::ranges::all_of(segments, [](const Segment& s) { return holds(s.dst, s.offset, s.size); });
    }

    // What a block's compute does: reads the weights, takes up to `microseconds`, reads them again.
    [[nodiscard]] bool compute(std::size_t block, std::size_t slot, unsigned microseconds) const {
        const bool before = good(block, slot);
        std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
        return before && good(block, slot);
    }

    // A whole run; compute of several blocks overlaps where slots allow it.
    void run(std::size_t passes, unsigned max_microseconds = 200) {
        streamer.begin(passes);
        std::deque<std::pair<std::size_t, std::future<bool>>> computing;
        const auto retire = [&] {
            const bool was_good = computing.front().second.get();
            CHECK(was_good);
            streamer.release(computing.front().first);
            computing.pop_front();
        };
        for (std::size_t load = 0; load < passes * blocks.of.size(); ++load) {
            if (computing.size() == std::max<std::size_t>(1, slots - 1)) {
                retire();
            }
            const std::size_t block = load % blocks.of.size();
            const std::size_t slot = streamer.acquire(block);
            CHECK(slot == load % slots);
            computing.emplace_back(
                block, std::async(std::launch::async, [this, block, slot, max_microseconds, load] {
                    return compute(block, slot, load * 7919 % (max_microseconds + 1));
                }));
        }
        while (!computing.empty()) {
            retire();
        }
        streamer.finish();
    }

    Blocks blocks;
    std::size_t slots;
    ScratchFile file;
    AlignedMemory memory;
    FileReader reader;
    BlockStreamer streamer;
};

// A disk that takes its time, differently at each request.
ReadAt slow_disk(unsigned max_microseconds) {
    return [max_microseconds, turn = std::make_shared<std::atomic<unsigned>>(0)](
               FileHandle handle, std::byte* dst, std::size_t size, std::int64_t offset) {
        std::this_thread::sleep_for(std::chrono::microseconds((*turn)++ * 104729 % (max_microseconds + 1)));
        return positional_read(handle, dst, size, offset);
    };
}

} // namespace

TEST_CASE("every block computes on its own bytes, whatever the counts of blocks, slots and passes") {
    for (const char* folder : {".", "/dev/shm"}) {
        for (const std::size_t blocks : {1, 2, 3, 7}) {
            for (const std::size_t slots : {1, 2, 3, 5}) {
                Stand stand({.blocks = blocks, .slots = slots, .folder = folder});
                for (std::size_t passes = 1; passes <= 5; ++passes) {
                    CAPTURE(blocks);
                    CAPTURE(slots);
                    CAPTURE(passes);
                    stand.run(passes, 100);
                    CHECK(stand.streamer.stats().blocks == passes * blocks);
                }
            }
        }
    }
}

TEST_CASE("a slow disk makes compute wait, never read early") {
    Stand stand({.blocks = 4, .slots = 2, .read_at = slow_disk(2000)});
    stand.run(3, 0);
    const auto stats = stand.streamer.stats();
    CHECK(stats.waits > 0);
    CHECK(stats.wait_seconds > 0);
    CHECK(stats.load_seconds > 0);
    std::uint64_t bytes = 0;
    for (std::size_t block = 0; block < 4; ++block) {
        bytes += 3 * stand.blocks.bytes(block);
    }
    CHECK(stats.bytes == bytes);
}

TEST_CASE("slow compute keeps its slot until it is released") {
    Stand stand({.blocks = 5, .slots = 3});
    stand.run(3, 4000);
}

TEST_CASE("short and interrupted reads change nothing") {
    std::atomic<unsigned> turn = 0;
    Stand stand({.read_at = [&](FileHandle handle, std::byte* dst, std::size_t size, std::int64_t offset) {
        const unsigned now = turn++;
        if (now % 4 == 0) {
            errno = EINTR;
            return std::ptrdiff_t{-1};
        }
        const std::ptrdiff_t got = positional_read(handle, dst, size, offset);
        return now % 4 == 1 && got > 4500 ? std::ptrdiff_t{4500} : got;
    }});
    stand.run(4);
}

TEST_CASE("the next pass's first block loads while this pass's last one computes") {
    std::atomic<int> first_block_reads = 0;
    std::int64_t first_block = -1;
    Stand stand({.blocks = 3,
                 .slots = 2,
                 .read_at = [&](FileHandle handle, std::byte* dst, std::size_t size, std::int64_t offset) {
                     const std::ptrdiff_t got = positional_read(handle, dst, size, offset);
                     if (offset == first_block) {
                         ++first_block_reads;
                         first_block_reads.notify_all();
                     }
                     return got;
                 }});
    const std::uint64_t offset = stand.blocks.of[0][0].offset;
    first_block = static_cast<std::int64_t>(stand.reader.direct(0) ? offset / page * page : offset);
    stand.streamer.begin(2);
    for (std::size_t block = 0; block < 3; ++block) {
        stand.streamer.acquire(block);
        if (block < 2) {
            stand.streamer.release(block);
        }
    }
    first_block_reads.wait(1); // block 2 of pass 0 is still held; without the overlap this waits for ever
    CHECK(first_block_reads == 2);
    stand.streamer.cancel();
}

TEST_CASE("no more loads are queued than slots are free") {
    std::atomic<int> reads = 0;
    Stand stand({.blocks = 6,
                 .slots = 2,
                 .read_at =
                     [&](FileHandle handle, std::byte* dst, std::size_t size, std::int64_t offset) {
                         ++reads;
                         return positional_read(handle, dst, size, offset);
                     },
                 .scale = 100});
    stand.streamer.begin(1);
    stand.streamer.acquire(0);
    stand.streamer.acquire(1);
    const int two_blocks = reads;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(reads == two_blocks);
    CHECK(stand.good(0, 0));
    CHECK(stand.good(1, 1));
    stand.streamer.release(0);
    CHECK(stand.streamer.acquire(2) == 0);
    CHECK(reads > two_blocks);
    CHECK(stand.good(2, 0));
}

TEST_CASE("a disk error in any block of any pass arrives at that block, and the next run is clean") {
    for (std::size_t bad_pass = 0; bad_pass < 3; ++bad_pass) {
        for (std::size_t bad_block = 0; bad_block < 4; ++bad_block) {
            std::atomic<std::int64_t> bad_offset = -1;
            std::atomic<std::size_t> reads = 0;
            Stand stand(
                {.blocks = 4,
                 .read_at = [&](FileHandle handle, std::byte* dst, std::size_t size, std::int64_t offset) {
                     if (offset == bad_offset && reads++ == bad_pass) {
                         errno = EIO;
                         return std::ptrdiff_t{-1};
                     }
                     return positional_read(handle, dst, size, offset);
                 }});
            const std::uint64_t offset = stand.blocks.of[bad_block][0].offset;
            bad_offset = static_cast<std::int64_t>(stand.reader.direct(0) ? offset / page * page : offset);
            std::size_t done = 0;
            const std::string code = code_of([&] {
                stand.streamer.begin(3);
                for (; done < 12; ++done) {
                    const std::size_t slot = stand.streamer.acquire(done % 4);
                    CHECK(stand.good(done % 4, slot));
                    stand.streamer.release(done % 4);
                }
                stand.streamer.finish();
            });
            CHECK(code == "disk.read_failed");
            CHECK(done == bad_pass * 4 + bad_block);
            stand.streamer.cancel();
            stand.run(2);
        }
    }
}

TEST_CASE("a file that shrinks or is rewritten under a run is an error") {
    Stand stand({.blocks = 6});
    stand.streamer.begin(1);
    stand.streamer.acquire(0);
    SUBCASE("shrinks") {
        std::filesystem::resize_file(stand.file.path(), stand.blocks.of[3][0].offset);
        const std::string code = code_of([&] {
            for (std::size_t block = 1; block < 6; ++block) {
                stand.streamer.release(block - 1);
                stand.streamer.acquire(block);
            }
        });
        CHECK(code == "disk.short_read");
    }
    SUBCASE("is rewritten") {
        std::filesystem::last_write_time(stand.file.path(), std::filesystem::file_time_type::clock::now() +
                                                                std::chrono::hours(1));
        for (std::size_t block = 1; block < 6; ++block) {
            stand.streamer.release(block - 1);
            stand.streamer.acquire(block);
        }
        stand.streamer.release(5);
        CHECK(code_of([&] { stand.streamer.finish(); }) == "disk.file_changed");
    }
    stand.streamer.cancel();
    CHECK(code_of([&] { stand.streamer.begin(1); }) == "disk.file_changed");
}

TEST_CASE("blocks out of order, held too long or left out are refused") {
    Stand stand({.blocks = 3, .slots = 2});
    CHECK(code_of([&] { stand.streamer.acquire(0); }) == "stream.order"); // not begun
    CHECK(code_of([&] { stand.streamer.release(0); }) == "stream.order");
    stand.streamer.begin(1);
    CHECK(code_of([&] { stand.streamer.acquire(1); }) == "stream.order");
    CHECK(code_of([&] { stand.streamer.release(0); }) == "stream.order"); // not acquired
    stand.streamer.acquire(0);
    stand.streamer.acquire(1);
    CHECK(code_of([&] { stand.streamer.acquire(2); }) == "stream.order"); // both slots held
    CHECK(code_of([&] { stand.streamer.release(1); }) == "stream.order"); // 0 is older
    stand.streamer.release(0);
    CHECK(code_of([&] { stand.streamer.finish(); }) == "stream.incomplete");
    stand.run(1);
    CHECK(code_of([&] { stand.streamer.acquire(0); }) == "stream.order"); // over
    CHECK(code_of([&] { BlockStreamer(stand.reader, 3, 0, nullptr); }) == "stream.empty");
}

TEST_CASE("slots retire one by one at the end of the last pass, and stay untouched from then on") {
    for (const std::size_t slots : {1, 2, 3, 9}) {
        Stand stand({.blocks = 4, .slots = slots, .read_at = slow_disk(300)});
        const std::size_t total = 8;
        stand.streamer.begin(2);
        std::vector<bool> taken(slots);
        for (std::size_t load = 0; load <= total; ++load) {
            for (std::size_t slot = 0; slot < slots; ++slot) {
                // By definition: no load from `load` on goes there.
                bool used = false;
                for (std::size_t later = load; later < total; ++later) {
                    used = used || later % slots == slot;
                }
                CHECK(stand.streamer.slot_retired(slot) == !used);
                if (!used && !taken[slot]) {
                    taken[slot] = true;
                    std::fill_n(stand.at(slot), stand.blocks.slot_size, AlignedMemory::mark);
                }
            }
            if (load < total) {
                const std::size_t slot = stand.streamer.acquire(load % 4);
                CHECK(stand.compute(load % 4, slot, 100));
                stand.streamer.release(load % 4);
            }
        }
        stand.streamer.finish();
        CHECK(stand.memory.untouched());
    }
}

TEST_CASE("cancel wakes a waiting owner while the disk still hangs") {
    std::counting_semaphore<> gate(0);
    std::atomic<bool> hang = true;
    Stand stand({.read_at = [&](FileHandle handle, std::byte* dst, std::size_t size, std::int64_t offset) {
        if (hang) {
            gate.acquire();
        }
        return positional_read(handle, dst, size, offset);
    }});
    stand.streamer.begin(1);
    std::atomic<bool> quiet = false;
    std::jthread canceller([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        stand.streamer.cancel();
        quiet = true;
    });
    CHECK(code_of([&] { stand.streamer.acquire(0); }) == "stream.cancelled");
    CHECK_FALSE(quiet); // a read is still on its way to the slots
    CHECK(code_of([&] { stand.streamer.acquire(0); }) == "stream.cancelled");
    CHECK_NOTHROW(stand.streamer.release(0)); // compute that was under way ends as usual
    hang = false;
    gate.release(8);
    canceller.join();
    CHECK(code_of([&] { stand.streamer.finish(); }) == "stream.cancelled");
    stand.run(1);
}

TEST_CASE("cancel at random moments: the slots are quiet afterwards and the next run is right") {
    Stand stand({.blocks = 5, .slots = 3, .read_at = slow_disk(60)});
    std::mt19937 random(11);
    int cancelled = 0;
    for (int i = 0; i < 300; ++i) {
        const auto moment = std::chrono::microseconds(random() % 3000);
        stand.streamer.begin(4);
        std::jthread canceller([&] {
            std::this_thread::sleep_for(moment);
            stand.streamer.cancel();
        });
        bool right = true;
        const std::string code = code_of([&] {
            for (std::size_t load = 0; load < 20; ++load) {
                const std::size_t slot = stand.streamer.acquire(load % 5);
                right = stand.compute(load % 5, slot, 20) && right;
                stand.streamer.release(load % 5);
            }
            stand.streamer.finish();
        });
        stand.streamer.cancel(); // the owner's own, which may meet the other one
        stand.memory.fill();
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        REQUIRE(stand.memory.untouched());
        REQUIRE(right);
        REQUIRE((code.empty() || code == "stream.cancelled"));
        cancelled += code.empty() ? 0 : 1;
        if (i % 20 == 0) {
            canceller.join();
            stand.run(2, 50);
        }
    }
    CHECK(cancelled > 100); // otherwise the moments are chosen badly
}

TEST_CASE("a streamer that goes, or begins anew, in the middle of a run leaves its slots quiet") {
    Stand stand({.blocks = 5, .slots = 2, .read_at = slow_disk(200)});
    for (int i = 0; i < 30; ++i) {
        {
            BlockStreamer streamer(stand.reader, 5, 2, [&](std::size_t block, std::size_t slot) {
                return stand.blocks.into(block, stand.at(slot));
            });
            streamer.begin(1);
            streamer.begin(2);
            const std::size_t slot = streamer.acquire(0);
            REQUIRE(stand.good(0, slot));
        }
        stand.memory.fill();
        std::this_thread::sleep_for(std::chrono::microseconds(300));
        REQUIRE(stand.memory.untouched());
    }
}

TEST_CASE("a block that needs nothing from the disk is there at once") {
    const ScratchFile file(page);
    FileReader reader({file.path()});
    BlockStreamer streamer(reader, 2, 1, [](std::size_t, std::size_t) { return std::vector<Segment>(); });
    streamer.begin(1);
    for (std::size_t block = 0; block < 2; ++block) {
        CHECK(streamer.acquire(block) == 0);
        streamer.release(block);
    }
    CHECK_NOTHROW(streamer.finish());
    CHECK(streamer.stats().bytes == 0);
}

TEST_CASE("the timeline tells what happened when, within its limit") {
    Stand stand({.blocks = 3, .slots = 2, .read_at = slow_disk(500), .trace_limit = 1000});
    stand.run(2, 300);
    std::size_t loads = 0, waits = 0, holds = 0;
    std::vector<std::pair<std::size_t, std::size_t>> order;
    for (const StreamEvent& event : stand.streamer.events()) {
        CHECK(event.start >= 0);
        CHECK(event.end >= event.start);
        loads += event.kind == StreamEvent::Kind::load;
        waits += event.kind == StreamEvent::Kind::wait;
        holds += event.kind == StreamEvent::Kind::hold;
        if (event.kind == StreamEvent::Kind::hold) {
            order.emplace_back(event.pass, event.block);
        }
    }
    CHECK(loads == 6);
    CHECK(waits == stand.streamer.stats().waits);
    const std::vector<std::pair<std::size_t, std::size_t>> expected{{0, 0}, {0, 1}, {0, 2},
                                                                    {1, 0}, {1, 1}, {1, 2}};
    CHECK(order == expected);
    CHECK(holds == 6);

    Stand bounded({.blocks = 3, .slots = 2, .trace_limit = 4});
    bounded.run(2);
    CHECK(bounded.streamer.events().size() == 4);
    Stand silent({.blocks = 3, .slots = 2});
    silent.run(2);
    CHECK(silent.streamer.events().empty());
}
