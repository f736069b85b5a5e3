// Measures how fast a file comes off its disk, past the page cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace twofold {

struct ReadRate {
    std::uint64_t bytes = 0;
    double seconds = 0;
    bool direct = false; // false: through the page cache, because the file system refuses anything else
};

// Reads `path` from byte `start` on and over again from its beginning, for about `seconds`: `in_flight`
// requests of `block_bytes` at any time. `block_bytes` is rounded down to a multiple of direct_alignment and
// to the file's size. Throws what FileReader throws, and Error "disk.file_empty" (path).
ReadRate measure_read_rate(const std::filesystem::path& path, std::size_t block_bytes, unsigned in_flight,
                           double seconds, std::uint64_t start = 0);

} // namespace twofold
