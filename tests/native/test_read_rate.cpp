// Measuring a file's read rate.
#include "disk/read_rate.h"
#include "scratch_file.h"

#include <doctest/doctest.h>

using namespace twofold;
using namespace twofold::test;

TEST_CASE("the rate counts the bytes asked for and the time they took, whatever the file's size") {
    for (const std::size_t size :
         {std::size_t{1}, std::size_t{4096}, std::size_t{100000}, std::size_t{900000}}) {
        const ScratchFile file(size, std::filesystem::current_path());
        const auto start = FileReader::Clock::now();
        const ReadRate rate = measure_read_rate(file.path(), 64 * 1024, 3, 0.05);
        const double took = std::chrono::duration<double>(FileReader::Clock::now() - start).count();
        const std::size_t block = std::min<std::size_t>(size, 64 * 1024);
        CHECK(rate.bytes % block == 0);
        CHECK(rate.bytes >= 2 * block); // more than a file of one block holds: it is read over again
        CHECK(rate.seconds >= 0.05);
        CHECK(rate.seconds <= took);
    }
}

TEST_CASE("an empty file has no rate") {
    const ScratchFile file(0);
    CHECK(code_of([&] { measure_read_rate(file.path(), 4096, 1, 0.01); }) == "disk.file_empty");
}
