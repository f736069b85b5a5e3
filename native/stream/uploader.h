// How blocks get into slots that the disk cannot write to: through host memory, by copies of a device.
#pragma once

#include "disk/file_reader.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace twofold {

// How a block's bytes come into its slot.
enum class Route {
    direct,   // the disk writes them there
    staged,   // the disk writes them to a staging buffer, and they are copied from there
    from_host // memory of the host holds them all the time, and they are copied from there
};

// Copies to slots in a device's memory. The streamer's upload thread calls upload() and settle(), one block
// after the other; staging buffers are numbered as the slots are.
class Uploader {
  public:
    virtual ~Uploader() = default;

    // Always the same for a block.
    [[nodiscard]] virtual Route route(std::size_t block) const = 0;
    // The reads that fill staging buffer `slot` with a staged `block`.
    [[nodiscard]] virtual std::vector<Segment> staging_reads(std::size_t block, std::size_t slot) const = 0;
    // Starts copying `block` into `slot`. The device's own queues order the copy after the slot's last
    // compute, and the next compute after the copy. What it throws ends
    // the run.
    virtual void upload(std::size_t block, std::size_t slot) = 0;
    // Returns when the copy into `slot` has ended, so that its staging buffer may be overwritten.
    virtual void settle(std::size_t slot) = 0;
    // Returns when no copy is under way, after an error too.
    virtual void drain() noexcept = 0;
};

} // namespace twofold
