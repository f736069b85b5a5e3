// Reading byte ranges past the page cache: contents, order, limits, faults, cancel.
#include "disk/file_reader.h"
#include "scratch_file.h"

#include <doctest/doctest.h>

#include <array>
#include <cerrno>
#include <latch>
#include <random>
#include <semaphore>

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#include <winternl.h>
#else
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

using namespace twofold;
using namespace twofold::test;

namespace {

constexpr std::size_t page = direct_alignment;

// What the system says of an open file, without the reader's code.
bool opened_direct(FileHandle handle) {
#ifdef _WIN32
    constexpr auto mode_information = static_cast<FILE_INFORMATION_CLASS>(16);
    constexpr ULONG unbuffered = 8;
    IO_STATUS_BLOCK status{};
    ULONG mode = 0;
    const auto file = reinterpret_cast<HANDLE>(handle);
    REQUIRE(NtQueryInformationFile(file, &status, &mode, sizeof mode, mode_information) == 0);
    return (mode & unbuffered) != 0;
#elif defined(__APPLE__)
    return fcntl(static_cast<int>(handle), F_GETNOCACHE) == 1;
#else
    return (fcntl(static_cast<int>(handle), F_GETFL) & O_DIRECT) != 0;
#endif
}

// Segments of random size and place, each in pages of its own. They may overlap in the file.
struct RandomSegments {
    std::vector<Segment> segments;
    std::size_t memory_size = 0;

    RandomSegments(std::mt19937& random, std::size_t file_size) {
        std::vector<std::size_t> places;
        for (int i = 0; i < 12; ++i) {
            const std::size_t offset = random() % file_size;
            const std::size_t size = std::min<std::size_t>(file_size - offset, 1 + random() % 40000);
            segments.push_back({.file = 0, .offset = offset, .size = size});
            places.push_back(memory_size + page + offset % page); // a page between segments stays untouched
            memory_size = (places.back() + size + page - 1) / page * page;
        }
        memory_size += page;
        offsets_ = std::move(places);
    }
    void place(std::byte* memory) {
        for (std::size_t i = 0; i < segments.size(); ++i) {
            segments[i].dst = memory + offsets_[i];
        }
    }

  private:
    std::vector<std::size_t> offsets_;
};

void check_random_segments(const std::filesystem::path& folder, bool expect_direct) {
    std::mt19937 random(7);
    for (const std::size_t file_size : {std::size_t{1}, page - 1, page, 3 * page + 17, std::size_t{200001}}) {
        const ScratchFile file(file_size, folder);
        FileReader reader({file.path()}, {.request_bytes = 2 * page});
        CHECK(reader.direct(0) == expect_direct);
        CHECK(reader.file_size(0) == file_size);
        for (int round = 0; round < 10; ++round) {
            RandomSegments wanted(random, file_size);
            AlignedMemory memory(wanted.memory_size);
            wanted.place(memory.data());
            const auto report = reader.wait(reader.submit(wanted.segments));
            std::uint64_t bytes = 0;
            std::size_t end_of_last = 0;
            for (const auto& segment : wanted.segments) {
                CHECK(holds(segment.dst, segment.offset, segment.size));
                const auto start = static_cast<std::size_t>(segment.dst - memory.data());
                CHECK(memory.untouched(end_of_last, start / page * page));
                end_of_last = (start + segment.size + page - 1) / page * page;
                bytes += segment.size;
            }
            CHECK(memory.untouched(end_of_last, memory.size()));
            CHECK(report.bytes == bytes);
        }
        CHECK(reader.direct(0) == expect_direct);
    }
}

// Whether this folder's file system takes direct reads, found out without the reader.
bool takes_direct([[maybe_unused]] const std::filesystem::path& folder) {
#ifdef __linux__
    const ScratchFile file(page, folder);
    const AlignedMemory memory(page);
    const int fd = ::open(file.path().c_str(), O_RDONLY | O_DIRECT);
    const bool works = fd >= 0 && ::pread(fd, memory.data(), page, 0) == static_cast<std::ptrdiff_t>(page);
    if (fd >= 0) {
        ::close(fd);
    }
    return works;
#else
    return true;
#endif
}

} // namespace

TEST_CASE("every byte lands in place and none beside its pages, past the page cache") {
    const std::filesystem::path folder = std::filesystem::current_path();
    check_random_segments(folder, takes_direct(folder));
}

#ifdef __linux__
TEST_CASE("files in memory are read through the page cache, and the reader says so") {
    check_random_segments("/dev/shm", false);
}
#endif

TEST_CASE("a file system that refuses direct reads only when read is read through the page cache") {
    const ScratchFile file(5 * page + 3);
    FileReader reader({file.path()}, {.request_bytes = page,
                                      .read_at = [](FileHandle handle, std::byte* dst, std::size_t size,
                                                    std::int64_t offset) {
                                          if (opened_direct(handle)) {
                                              errno = EINVAL;
                                              return std::ptrdiff_t{-1};
                                          }
                                          return positional_read(handle, dst, size, offset);
                                      }});
    const AlignedMemory memory(6 * page);
    reader.wait(reader.submit({{.offset = 5, .size = 5 * page - 2, .dst = memory.data() + 5}}));
    CHECK(holds(memory.data() + 5, 5, 5 * page - 2));
    CHECK_FALSE(reader.direct(0));
}

TEST_CASE("requests are aligned, whole, of equal size and no larger than asked for") {
    const ScratchFile file(64 * page);
    std::mutex mutex;
    std::vector<std::pair<std::int64_t, std::size_t>> seen;
    FileReader reader({file.path()}, {.request_bytes = 4 * page,
                                      .read_at = [&](FileHandle handle, std::byte* dst, std::size_t size,
                                                     std::int64_t offset) {
                                          const std::lock_guard lock(mutex);
                                          CHECK(reinterpret_cast<std::uintptr_t>(dst) % page == 0);
                                          seen.emplace_back(offset, size);
                                          return positional_read(handle, dst, size, offset);
                                      }});
    REQUIRE(reader.direct(0) == takes_direct(std::filesystem::temp_directory_path()));
    if (!reader.direct(0)) {
        return;
    }
    const AlignedMemory memory(10 * page);
    reader.wait(reader.submit({{.offset = 2 * page + 9, .size = 8 * page, .dst = memory.data() + 9}}));
    std::ranges::sort(seen);
    const std::vector<std::pair<std::int64_t, std::size_t>> expected{
        {2 * page, 3 * page}, {5 * page, 3 * page}, {8 * page, 3 * page}};
    CHECK(seen == expected);
    CHECK(reader.stats().requests == 3);
    CHECK(reader.stats().bytes == 9 * page);
    CHECK(reader.stats().busy_seconds > 0);
}

TEST_CASE("as many requests as asked for are on the disk at once, across small segments") {
    const ScratchFile file(8 * page);
    std::latch together(4); // only four requests at once let each other through
    std::atomic<int> count = 0;
    FileReader reader({file.path()}, {.in_flight = 4,
                                      .read_at = [&](FileHandle handle, std::byte* dst, std::size_t size,
                                                     std::int64_t offset) {
                                          if (++count <= 4) {
                                              together.arrive_and_wait();
                                          }
                                          return positional_read(handle, dst, size, offset);
                                      }});
    const AlignedMemory memory(8 * page);
    std::vector<Segment> segments;
    for (std::size_t i = 0; i < 8; ++i) {
        segments.push_back({.offset = i * page, .size = page, .dst = memory.data() + i * page});
    }
    reader.wait(reader.submit(segments));
    CHECK(holds(memory.data(), 0, 8 * page));
}

TEST_CASE("jobs are served in the order of their submission") {
    const ScratchFile file(32 * page);
    std::vector<std::int64_t> seen;
    FileReader reader({file.path()}, {.in_flight = 1,
                                      .request_bytes = page,
                                      .read_at = [&](FileHandle handle, std::byte* dst, std::size_t size,
                                                     std::int64_t offset) {
                                          seen.push_back(offset);
                                          return positional_read(handle, dst, size, offset);
                                      }});
    const AlignedMemory memory(32 * page);
    std::vector<FileReader::Ticket> jobs;
    std::vector<std::int64_t> expected;
    for (const std::size_t first : {16UL, 0UL, 24UL, 8UL}) {
        jobs.push_back(
            reader.submit({{.offset = first * page, .size = 8 * page, .dst = memory.data() + first * page}}));
        for (std::size_t i = 0; i < 8; ++i) {
            expected.push_back(static_cast<std::int64_t>((first + i) * page));
        }
    }
    for (const auto& job : jobs) {
        reader.wait(job);
    }
    CHECK(seen == expected);
    CHECK(holds(memory.data(), 0, memory.size()));
}

TEST_CASE("interrupted and short reads are completed") {
    const ScratchFile file(40 * page + 1234);
    std::atomic<unsigned> turn = 0;
    FileReader reader(
        {file.path()},
        {.request_bytes = 8 * page,
         .read_at = [&](FileHandle handle, std::byte* dst, std::size_t size, std::int64_t offset) {
             const unsigned now = turn++;
             if (now % 3 == 0) {
                 errno = EINTR;
                 return std::ptrdiff_t{-1};
             }
             const std::ptrdiff_t got = positional_read(handle, dst, size, offset);
             // Parts of blocks, too: the rest must start at a whole block.
             return now % 3 == 1 && got > 5000 ? std::ptrdiff_t{5000} : got;
         }});
    const AlignedMemory memory(42 * page);
    const std::size_t size = 40 * page + 1234 - 77;
    reader.wait(reader.submit({{.offset = 77, .size = size, .dst = memory.data() + 77}}));
    CHECK(holds(memory.data() + 77, 77, size));
}

TEST_CASE("a disk error names the place, ends its job only, and leaves its memory alone") {
    const ScratchFile file(16 * page);
    FileReader reader({file.path()}, {.request_bytes = page,
                                      .read_at = [](FileHandle handle, std::byte* dst, std::size_t size,
                                                    std::int64_t offset) {
                                          if (offset == 5 * page) {
                                              errno = EIO;
                                              return std::ptrdiff_t{-1};
                                          }
                                          return positional_read(handle, dst, size, offset);
                                      }});
    AlignedMemory memory(16 * page);
    const auto bad = reader.submit({{.offset = 0, .size = 16 * page, .dst = memory.data()}});
    try {
        reader.wait(bad);
        FAIL("the error was lost");
    } catch (const Error& error) {
        CHECK(error.code() == "disk.read_failed");
        CHECK(std::get<std::string>(error.facts().at("path")) == file.path().string());
        CHECK(std::get<std::int64_t>(error.facts().at("offset")) == 5 * page);
        CHECK(std::get<std::int64_t>(error.facts().at("wanted")) == page);
        CHECK(std::get<std::string>(error.facts().at("reason")).find("nput/output") != std::string::npos);
    }
    memory.fill();
    reader.wait(reader.submit({{.offset = 8 * page, .size = page, .dst = memory.data()}}));
    CHECK(holds(memory.data(), 8 * page, page));
    CHECK(memory.untouched(page, memory.size()));
}

TEST_CASE("a file that has shrunk gives a short read with the numbers") {
#ifdef __linux__
    constexpr std::array folders{".", "/dev/shm"};
#else
    constexpr std::array folders{"."};
#endif
    for (const char* folder : folders) {
        const ScratchFile file(16 * page, folder);
        FileReader reader({file.path()});
        std::filesystem::resize_file(file.path(), 3 * page + 100);
        const AlignedMemory memory(16 * page);
        try {
            reader.wait(reader.submit({{.offset = 8, .size = 8 * page, .dst = memory.data() + 8}}));
            FAIL("the error was lost");
        } catch (const Error& error) {
            CHECK(error.code() == "disk.short_read");
            CHECK(std::get<std::int64_t>(error.facts().at("wanted")) == 8 * page);
            CHECK(std::get<std::int64_t>(error.facts().at("got")) == 3 * page + 92);
        }
        CHECK(code_of([&] { reader.check_unchanged(); }) == "disk.file_changed");
    }
}

TEST_CASE("a file that is replaced, rewritten or removed is noticed") {
    const ScratchFile file(page), other(page), third(page);
    const FileReader reader({file.path(), other.path(), third.path()});
    CHECK_NOTHROW(reader.check_unchanged());

    SUBCASE("replaced by an equal copy") {
        const std::filesystem::path copy = other.path().string() + ".copy";
        std::filesystem::copy_file(other.path(), copy);
        std::filesystem::last_write_time(copy, std::filesystem::last_write_time(other.path()));
#ifdef _WIN32 // an open file can be moved and removed there, but its name is not free at once
        const std::filesystem::path old = other.path().string() + ".old";
        std::filesystem::rename(other.path(), old);
        std::filesystem::remove(old);
#endif
        std::filesystem::rename(copy, other.path());
    }
    SUBCASE("rewritten in place") {
        std::filesystem::last_write_time(other.path(), std::filesystem::file_time_type::clock::now() -
                                                           std::chrono::hours(1));
    }
    SUBCASE("removed") {
        std::filesystem::remove(other.path());
    }
    try {
        reader.check_unchanged();
        FAIL("the change was missed");
    } catch (const Error& error) {
        CHECK(error.code() == "disk.file_changed");
        CHECK(std::get<std::string>(error.facts().at("path")) == other.path().string());
    }
}

TEST_CASE("what cannot be read as a file is refused when opened") {
    const std::filesystem::path folder = std::filesystem::temp_directory_path();
    CHECK(code_of([] { FileReader({"/nowhere/at/all"}); }) == "disk.open_failed");
    CHECK(code_of([&] { FileReader({folder}); }) == "disk.open_failed");
#ifndef _WIN32
    const auto fifo = folder / ("twofold-fifo-" + std::to_string(getpid()));
    REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
    CHECK(code_of([&] { FileReader({fifo}); }) == "disk.open_failed");
    std::filesystem::remove(fifo);
#endif
}

TEST_CASE("memory that does not agree with the offset is refused") {
    const ScratchFile file(page);
    FileReader reader({file.path()});
    const AlignedMemory memory(page);
    CHECK(code_of([&] { (void) reader.submit({{.offset = 0, .size = 8, .dst = memory.data() + 8}}); }) ==
          "disk.unaligned");
}

TEST_CASE("a job without bytes is served at once") {
    const ScratchFile file(page);
    FileReader reader({file.path()});
    CHECK(reader.wait(reader.submit({})).bytes == 0);
    const AlignedMemory memory(page);
    CHECK(reader.wait(reader.submit({{.offset = 0, .size = 0, .dst = memory.data()}})).bytes == 0);
}

TEST_CASE("cancel wakes the waiter at once and returns when the memory is quiet") {
    const ScratchFile file(16 * page);
    std::counting_semaphore<> arrived(0), gate(0);
    std::atomic<bool> hang = true;
    FileReader reader({file.path()}, {.in_flight = 2,
                                      .request_bytes = page,
                                      .read_at = [&](FileHandle handle, std::byte* dst, std::size_t size,
                                                     std::int64_t offset) {
                                          if (hang) {
                                              arrived.release();
                                              gate.acquire();
                                          }
                                          return positional_read(handle, dst, size, offset);
                                      }});
    AlignedMemory memory(16 * page), next(page);
    const auto job = reader.submit({{.offset = 0, .size = 16 * page, .dst = memory.data()}});
    const auto later = reader.submit({{.offset = 0, .size = page, .dst = next.data()}});
    arrived.acquire();
    arrived.acquire(); // both threads are inside a read that hangs
    std::atomic<bool> quiet = false;
    std::jthread canceller([&] {
        reader.cancel(job);
        quiet = true;
    });
    CHECK(code_of([&] { reader.wait(job); }) == "disk.cancelled"); // though the disk still hangs
    CHECK_FALSE(quiet);
    hang = false;
    gate.release(2);
    canceller.join();
    memory.fill();
    reader.wait(later);
    CHECK(holds(next.data(), 0, page));
    CHECK(memory.untouched());
    CHECK_NOTHROW(reader.cancel(later)); // a job that has been served stays as it is
    CHECK_NOTHROW(reader.wait(later));
}

TEST_CASE("cancelling at random moments never leaves a write behind") {
    const ScratchFile file(64 * page);
    FileReader reader({file.path()}, {.request_bytes = page});
    std::mt19937 random(3);
    AlignedMemory memory(64 * page);
    for (int i = 0; i < 300; ++i) {
        const auto job = reader.submit({{.offset = 0, .size = 64 * page, .dst = memory.data()}});
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
        reader.cancel(job);
        memory.fill();
        std::this_thread::sleep_for(std::chrono::microseconds(50));
        REQUIRE(memory.untouched());
    }
}

TEST_CASE("a reader that goes drops what it has not served and joins its threads") {
    const ScratchFile file(64 * page);
    constexpr std::size_t jobs = 8; // each into memory of its own, as the reader asks
    AlignedMemory memory(jobs * 64 * page);
    for (int i = 0; i < 50; ++i) {
        {
            FileReader reader({file.path()}, {.request_bytes = page});
            for (std::size_t job = 0; job < jobs; ++job) {
                std::byte* dst = memory.data() + job * 64 * page;
                (void) reader.submit({{.offset = 0, .size = 64 * page, .dst = dst}});
            }
        }
        memory.fill();
        REQUIRE(memory.untouched());
    }
}

TEST_CASE("many threads may use one reader") {
    const ScratchFile first(32 * page), second(20 * page + 5);
    FileReader reader({first.path(), second.path()}, {.request_bytes = 2 * page});
    std::atomic<int> wrong = 0;
    {
        std::vector<std::jthread> users;
        for (unsigned user = 0; user < 4; ++user) {
            users.emplace_back([&, user] {
                std::mt19937 random(user);
                const AlignedMemory memory(8 * page);
                for (int i = 0; i < 50; ++i) {
                    const std::size_t offset = random() % (12 * page);
                    const std::size_t size = 1 + random() % (6 * page);
                    std::byte* dst = memory.data() + offset % page;
                    reader.wait(
                        reader.submit({{.file = user % 2, .offset = offset, .size = size, .dst = dst}}));
                    wrong += holds(dst, offset, size) ? 0 : 1;
                }
            });
        }
    }
    CHECK(wrong == 0);
}
