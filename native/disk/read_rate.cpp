// Keeps a FileReader supplied with one job a request, in a ring of buffers.
#include "disk/read_rate.h"
#include "disk/file_reader.h"
#include "disk/page_cache.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace twofold {

ReadRate measure_read_rate(const std::filesystem::path& path, std::size_t block_bytes, unsigned in_flight,
                           double seconds) {
    in_flight = std::max(1U, in_flight);
    block_bytes = std::max(direct_alignment, block_bytes / direct_alignment * direct_alignment);
    FileReader reader({path}, {.in_flight = in_flight, .request_bytes = block_bytes});
    const std::uint64_t file_bytes = reader.file_size(0);
    if (file_bytes == 0) {
        throw Error("disk.file_empty", {{"path", path.string()}});
    }
    const std::uint64_t blocks = std::max<std::uint64_t>(1, file_bytes / block_bytes);
    const std::size_t size = std::min<std::uint64_t>(block_bytes, file_bytes);

    // Twice the requests in flight, so that a worker always finds the next one waiting.
    const std::size_t ring = 2 * static_cast<std::size_t>(in_flight);
    const std::unique_ptr<std::byte, decltype(&std::free)> memory(
        static_cast<std::byte*>(std::aligned_alloc(direct_alignment, ring * block_bytes)), &std::free);
    if (!memory) {
        throw std::bad_alloc();
    }
    std::fill_n(memory.get(), ring * block_bytes, std::byte{}); // first touch is not the disk's time

    std::vector<FileReader::Ticket> jobs(ring);
    std::uint64_t submitted = 0;
    const auto submit = [&] {
        jobs[submitted % ring] = reader.submit({{.file = 0,
                                                 .offset = submitted % blocks * block_bytes,
                                                 .size = size,
                                                 .dst = memory.get() + submitted % ring * block_bytes}});
        ++submitted;
    };

    drop_from_page_cache(path);
    ReadRate rate;
    const auto start = FileReader::Clock::now();
    const auto end = start + std::chrono::duration<double>(seconds);
    while (submitted < ring) {
        submit();
    }
    for (std::uint64_t served = 0; served < submitted; ++served) {
        const auto report = reader.wait(jobs[served % ring]);
        rate.bytes += report.bytes;
        rate.seconds = std::chrono::duration<double>(report.finished - start).count();
        if (report.finished < end) {
            if (submitted % blocks == 0 && !reader.direct(0)) {
                drop_from_page_cache(path); // or the second round would measure memory
            }
            submit();
        }
    }
    rate.direct = reader.direct(0);
    return rate;
}

} // namespace twofold
