// Dropping a file from the page cache.
#include "disk/page_cache.h"
#include "scratch_file.h"

#include <doctest/doctest.h>

#ifndef _WIN32
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

using namespace twofold;
using namespace twofold::test;

#ifndef _WIN32 // which tells nobody what its cache holds

namespace {

std::size_t cached_pages(const std::filesystem::path& path, std::size_t size) {
    const int fd = ::open(path.c_str(), O_RDONLY);
    void* view = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
    ::close(fd);
    REQUIRE(view != MAP_FAILED);
    std::vector<unsigned char> resident(size / 4096);
    REQUIRE(mincore(view, size, resident.data()) == 0);
    munmap(view, size);
    return static_cast<std::size_t>(
        std::ranges::count_if(resident, [](unsigned char page) { return (page & 1) != 0; }));
}

} // namespace

TEST_CASE("a file just written is in the cache, and out of it after a drop, whole") {
    const std::filesystem::path folder = std::filesystem::current_path();
    constexpr std::size_t size = 64 * 4096;
    const ScratchFile file(size, folder);
    REQUIRE(cached_pages(file.path(), size) == 64);
    drop_from_page_cache(file.path());
    CHECK(cached_pages(file.path(), size) == 0);

    FileReader reader({file.path()});
    const AlignedMemory memory(size);
    reader.wait(reader.submit({{.offset = 0, .size = size, .dst = memory.data()}}));
    CHECK(holds(memory.data(), 0, size));
    if (reader.direct(0)) {
        CHECK(cached_pages(file.path(), size) == 0); // a direct read leaves the cache alone
    }
}

#endif

TEST_CASE("a file is whole after a drop, with a reader that has it open") {
    constexpr std::size_t size = 5 * 4096 + 7;
    const ScratchFile file(size);
    FileReader reader({file.path()});
    drop_from_page_cache(file.path());
    reader.check_unchanged();
    const AlignedMemory memory(size);
    reader.wait(reader.submit({{.offset = 0, .size = size, .dst = memory.data()}}));
    CHECK(holds(memory.data(), 0, size));
}

TEST_CASE("what is not there cannot be dropped") {
    CHECK(code_of([] { drop_from_page_cache("/nowhere/at/all"); }) == "disk.open_failed");
}
