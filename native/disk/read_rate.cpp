// Keeps a FileReader supplied with two jobs in turn.
#include "disk/read_rate.h"
#include "disk/aligned_memory.h"
#include "disk/file_reader.h"
#include "disk/huge_pages.h"
#include "disk/page_cache.h"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

namespace twofold {

ReadRate measure_read_rate(const std::filesystem::path& path, std::size_t block_bytes, unsigned in_flight,
                           double seconds, std::uint64_t start) {
    in_flight = std::max(1U, in_flight);
    block_bytes = std::max(direct_alignment, block_bytes / direct_alignment * direct_alignment);
    // Two jobs of `in_flight` requests each: the workers take up one while the other is being renewed.
    const std::size_t job_bytes = in_flight * block_bytes;
    const std::size_t memory_bytes =
        (2 * job_bytes + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes;
    const AlignedBytes memory = aligned_bytes(huge_page_bytes, memory_bytes);
    if (!memory) {
        throw std::bad_alloc();
    }
    prefer_huge_pages(memory.get(), memory_bytes);
    std::fill_n(memory.get(), memory_bytes, std::byte{}); // first touch is not the disk's time

    FileReader reader({path}, {.in_flight = in_flight, .request_bytes = block_bytes});
    const std::uint64_t file_bytes = reader.file_size(0);
    if (file_bytes == 0) {
        throw Error("disk.file_empty", {{"path", path.string()}});
    }
    const std::uint64_t blocks = std::max<std::uint64_t>(1, file_bytes / block_bytes);
    const std::size_t block = std::min<std::uint64_t>(block_bytes, file_bytes);

    std::uint64_t position = start / block_bytes % blocks; // in blocks
    const auto submit = [&](std::byte* dst) {
        if (position == blocks) {
            position = 0;
            if (!reader.direct(0)) {
                drop_from_page_cache(path); // or the second round would measure memory
            }
        }
        const std::uint64_t count = std::min<std::uint64_t>(in_flight, blocks - position);
        const std::uint64_t offset = std::exchange(position, position + count) * block_bytes;
        return reader.submit({{.file = 0, .offset = offset, .size = count * block, .dst = dst}});
    };

    drop_from_page_cache(path);
    ReadRate rate;
    const auto started = FileReader::Clock::now();
    std::array jobs{submit(memory.get()), submit(memory.get() + job_bytes)};
    for (std::size_t turn = 0; jobs[turn]; turn = 1 - turn) {
        const auto report = reader.wait(jobs[turn]);
        rate.bytes += report.bytes;
        const std::chrono::duration<double> since = report.finished - started;
        rate.seconds = std::max(rate.seconds, since.count()); // jobs may end out of order
        jobs[turn] = rate.seconds < seconds ? submit(memory.get() + turn * job_bytes) : nullptr;
    }
    rate.direct = reader.direct(0);
    return rate;
}

} // namespace twofold
