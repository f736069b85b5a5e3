// Huge pages under memory that is fresh or already in use.
#include "disk/huge_pages.h"
#include "scratch_file.h"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

using namespace twofold;
using namespace twofold::test;

#ifdef __linux__ // which alone tells, and alone gives them to memory in use

namespace {

// Kilobytes of huge pages in this process's memory at `address`, as the kernel tells.
std::size_t huge_kilobytes(const std::byte* address) {
    std::ifstream maps("/proc/self/smaps");
    const auto wanted = reinterpret_cast<std::uintptr_t>(address);
    bool here = false;
    for (std::string line; std::getline(maps, line);) {
        std::uintptr_t from = 0, to = 0;
        char dash = 0;
        std::istringstream range(line);
        if (range >> std::hex >> from >> dash >> to && dash == '-') {
            here = from <= wanted && wanted < to;
        } else if (here && line.starts_with("AnonHugePages:")) {
            return std::stoul(line.substr(14));
        }
    }
    return 0;
}

bool kernel_gives_huge_pages() {
    std::ifstream setting("/sys/kernel/mm/transparent_hugepage/enabled");
    std::string text;
    std::getline(setting, text);
    double release = 0;
    std::ifstream("/proc/sys/kernel/osrelease") >> release;
    return !text.empty() && text.find("[never]") == std::string::npos && release >= 6.1;
}

} // namespace

#endif

TEST_CASE("memory in use keeps its contents and moves to huge pages") {
    constexpr std::size_t size = 4 * huge_page_bytes;
    const AlignedBytes memory = aligned_bytes(huge_page_bytes, size);
    for (std::size_t i = 0; i < size; ++i) {
        memory.get()[i] = byte_at(i);
    }
    prefer_huge_pages(memory.get(), size);
    CHECK(holds(memory.get(), 0, size));
#ifdef __linux__
    if (kernel_gives_huge_pages()) {
        CHECK(huge_kilobytes(memory.get()) > 0);
    }
#endif
}

TEST_CASE("odd pieces of memory are taken as they are") {
    const AlignedMemory memory(3 * direct_alignment);
    for (const std::size_t from : {0UL, 1UL, 4095UL, 4096UL}) {
        for (const std::size_t size : {0UL, 1UL, 4096UL, 8000UL}) {
            prefer_huge_pages(memory.data() + from, size);
        }
    }
    CHECK(memory.untouched());
}
