// Blocks that reach their slots through staging buffers: the three hazards, delays on either side, faults,
// cancels.
#include "scratch_file.h"
#include "stream/block_streamer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <thread>

using namespace twofold;
using namespace twofold::test;

namespace {

constexpr std::size_t page = direct_alignment;
constexpr std::size_t block_size = 3 * page;

void pause(unsigned microseconds) {
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
}

// A device whose copies run in a queue of their own and read the staging buffer late, as hardware does.
class Device : public Uploader {
  public:
    Device(std::size_t blocks, std::size_t slots, std::vector<Route> routes)
        : slots_(slots), routes_(std::move(routes)), staging_(slots * block_size),
          memory_(slots * block_size), host_(blocks * block_size),
          queue_([this](const std::stop_token& stop) { copy(stop); }) {}

    [[nodiscard]] Route route(std::size_t block) const override { return routes_[block % routes_.size()]; }
    [[nodiscard]] std::vector<Segment> staging_reads(std::size_t block, std::size_t slot) const override {
        return {{.file = 0,
                 .offset = block * block_size,
                 .size = block_size,
                 .dst = staging_.data() + slot * block_size}};
    }
    void upload(std::size_t block, std::size_t slot) override {
        if (fail_at && uploads++ == *fail_at)
            throw Error("test.upload_failed");
        const std::byte* from = route(block) == Route::staged ? staging_.data() + slot * block_size
                                                              : host_.data() + block * block_size;
        const std::scoped_lock lock(mutex_);
        copies_.push_back({slot, from});
        changed_.notify_all();
    }
    void settle(std::size_t) override { drain(); }
    void drain() noexcept override {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return copies_.empty(); });
    }

    // What a device's event does: compute in `slot` begins after the copy.
    void wait_for(std::size_t slot) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] {
            return std::ranges::none_of(copies_, [&](const Copy& copy) { return copy.slot == slot; });
        });
    }
    [[nodiscard]] std::byte* slot(std::size_t number) const { return memory_.data() + number * block_size; }
    [[nodiscard]] std::byte* host(std::size_t block) const { return host_.data() + block * block_size; }

    unsigned delay = 0; // microseconds, in the middle of each copy
    std::optional<std::size_t> fail_at;
    std::size_t uploads = 0;
    std::atomic<std::size_t> copied = 0;

  private:
    struct Copy {
        std::size_t slot;
        const std::byte* from;
    };

    void copy(const std::stop_token& stop) {
        std::unique_lock lock(mutex_);
        while (changed_.wait(lock, stop, [this] { return !copies_.empty(); })) {
            const Copy copy = copies_.front();
            lock.unlock();
            std::copy_n(copy.from, page, slot(copy.slot));
            pause(delay);
            std::copy_n(copy.from + page, block_size - page, slot(copy.slot) + page);
            lock.lock();
            copies_.pop_front();
            ++copied;
            changed_.notify_all();
        }
    }

    std::size_t slots_;
    std::vector<Route> routes_;
    AlignedMemory staging_, memory_, host_;
    std::mutex mutex_;
    std::condition_variable_any changed_;
    std::deque<Copy> copies_;
    std::jthread queue_;
};

struct Stand {
    Stand(std::size_t count, std::size_t slots, std::vector<Route> routes, unsigned disk_delay = 0)
        : blocks(count), file(count * block_size), device(count, slots, std::move(routes)),
          reader({file.path()},
                 {.read_at =
                      [disk_delay](FileHandle handle, std::byte* dst, std::size_t size, std::int64_t offset) {
                          pause(disk_delay);
                          return positional_read(handle, dst, size, offset);
                      }}),
          streamer(
              reader, count, slots,
              [this](std::size_t block, std::size_t slot) {
                  return std::vector<Segment>{{.file = 0,
                                               .offset = block * block_size,
                                               .size = block_size,
                                               .dst = device.slot(slot)}};
              },
              1000, &device) {
        std::vector<Segment> all;
        for (std::size_t block = 0; block < count; ++block)
            all.push_back(
                {.file = 0, .offset = block * block_size, .size = block_size, .dst = device.host(block)});
        reader.wait(reader.submit(all));
    }

    void run(std::size_t passes, unsigned compute_delay = 0) {
        streamer.begin(passes);
        for (std::size_t load = 0; load < passes * blocks; ++load) {
            const std::size_t block = load % blocks;
            const std::size_t slot = streamer.acquire(block);
            device.wait_for(slot);
            CHECK(holds(device.slot(slot), block * block_size, block_size));
            pause(compute_delay);
            CHECK(holds(device.slot(slot), block * block_size, block_size));
            streamer.release(block);
        }
        streamer.finish();
    }

    std::size_t blocks;
    ScratchFile file;
    Device device;
    FileReader reader;
    BlockStreamer streamer;
};

constexpr auto staged = Route::staged;
constexpr auto from_host = Route::from_host;
constexpr auto direct = Route::direct;

} // namespace

TEST_CASE("every block computes on its own bytes, by whatever routes the blocks come") {
    for (const auto& routes : {std::vector{staged}, std::vector{from_host}, std::vector{staged, from_host},
                               std::vector{direct, staged}, std::vector{direct, from_host, staged, staged}})
        for (const std::size_t slots : {1, 2, 3, 5})
            for (const std::size_t blocks : {1, 3, 7}) {
                Stand stand(blocks, slots, routes);
                for (std::size_t passes = 1; passes <= 3; ++passes)
                    stand.run(passes);
            }
}

TEST_CASE("neither a slow disk, a slow copy nor slow compute lets one overtake another") {
    for (const unsigned disk : {0U, 500U})
        for (const unsigned copy : {0U, 500U})
            for (const unsigned compute : {0U, 500U}) {
                Stand stand(6, 2, {staged, staged, from_host}, disk);
                stand.device.delay = copy;
                stand.run(3, compute);
            }
}

TEST_CASE("a slot that is held is not copied to, while the disk reads on into staging") {
    Stand stand(6, 2, {staged});
    stand.streamer.begin(1);
    const std::size_t slot = stand.streamer.acquire(0);
    stand.streamer.acquire(1);
    // Four blocks are read: two are in slots, two wait in staging buffers.
    while (stand.reader.stats().bytes < (6 + 4) * block_size) // six by the set-up
        pause(100);
    pause(2000);
    CHECK(stand.reader.stats().bytes == (6 + 4) * block_size);
    CHECK(holds(stand.device.slot(slot), 0, block_size));
    stand.streamer.cancel();
}

TEST_CASE("the next block is copied while a block computes") {
    Stand stand(8, 2, {staged});
    stand.device.delay = 3000;
    stand.streamer.begin(1);
    for (std::size_t block = 0; block < stand.blocks; ++block) {
        stand.device.wait_for(stand.streamer.acquire(block));
        // A copy that waited for this block's release would never end.
        while (stand.device.copied < std::min(block + 2, stand.blocks))
            pause(100);
        stand.streamer.release(block);
    }
    stand.streamer.finish();
    const auto events = stand.streamer.events();
    CHECK(std::ranges::count(events, StreamEvent::Kind::upload, &StreamEvent::kind) == 8);
    CHECK(stand.streamer.stats().upload_seconds > 0.02);
}

TEST_CASE("a failed copy arrives at its block, and the next run is clean") {
    for (std::size_t at = 0; at < 10; ++at) {
        Stand stand(5, 2, {staged, from_host});
        stand.device.fail_at = at;
        std::size_t acquired = 0;
        try {
            stand.streamer.begin(2);
            for (; acquired < 10; ++acquired) {
                stand.device.wait_for(stand.streamer.acquire(acquired % 5));
                stand.streamer.release(acquired % 5);
            }
            FAIL("no error");
        } catch (const Error& error) {
            CHECK(error.code() == "test.upload_failed");
        }
        CHECK(acquired == at);
        stand.streamer.cancel();
        stand.device.fail_at.reset();
        stand.run(2);
    }
}

TEST_CASE("a disk error on the way to a staging buffer arrives at the block that needs it") {
    Stand stand(5, 2, {staged});
    std::filesystem::resize_file(stand.file.path(), 3 * block_size);
    CHECK_THROWS_AS(stand.run(1), Error);
    stand.streamer.cancel();
}

TEST_CASE("after a cancel at any moment nothing is copied, and the next run is right") {
    for (unsigned after = 0; after < 3000; after += 150) {
        Stand stand(6, 2, {staged, from_host, direct}, 50);
        stand.device.delay = 100;
        stand.streamer.begin(50);
        std::jthread canceller([&] {
            pause(after);
            stand.streamer.cancel();
            for (std::size_t slot = 0; slot < 2; ++slot)
                std::fill_n(stand.device.slot(slot), block_size, std::byte{0x5a});
            pause(500);
            for (std::size_t slot = 0; slot < 2; ++slot)
                CHECK(std::all_of(stand.device.slot(slot), stand.device.slot(slot) + block_size,
                                  [](std::byte byte) { return byte == std::byte{0x5a}; }));
        });
        try {
            for (std::size_t load = 0; load < 300; ++load) {
                stand.device.wait_for(stand.streamer.acquire(load % 6));
                stand.streamer.release(load % 6);
            }
        } catch (const Error& error) {
            CHECK(error.code() == "stream.cancelled");
        }
        canceller.join();
        stand.run(1);
    }
}
