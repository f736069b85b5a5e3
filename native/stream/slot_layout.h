// Where a block's bytes go inside a slot whose memory may come in several pieces.
//
// A direct read needs the memory address and the file offset to agree modulo the page size. Placing
// bytes that way lets reads land in place, with no staging copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace twofold {

inline constexpr std::size_t slot_alignment = 4096;

// Bytes of one tensor in a file.
struct FileRange {
    std::size_t file = 0;
    std::uint64_t offset = 0;
    std::size_t size = 0;
};

// Memory that one slot may use: whole pages of [begin, begin + size).
struct Region {
    std::byte* begin = nullptr;
    std::size_t size = 0;

    bool operator==(const Region&) const = default;
};

// A contiguous read: `size` bytes at `offset` of `file` to `data`. The pages that [data, data + size)
// touches belong to the slot.
struct PlacedRead {
    FileRange from;
    std::byte* data = nullptr;
};

struct Placement {
    std::vector<std::byte*> tensors; // one address for each range, in the caller's order
    std::vector<PlacedRead> reads;   // neighbouring ranges read as one
};

// Bytes that `ranges` need in one contiguous, page-aligned region.
std::size_t placed_size(std::span<const FileRange> ranges);

// Places `ranges` into `regions`, or nothing when they do not fit. Neighbours in the file stay
// neighbours in memory where a region is large enough.
std::optional<Placement> place(std::span<const FileRange> ranges, std::span<const Region> regions);

// Cuts a slot out of `pool` that can hold each of `blocks` (one at a time). On success the pieces taken
// are returned and removed from `pool`; otherwise `pool` is left as it was.
std::optional<std::vector<Region>> take_slot(std::span<const std::vector<FileRange>> blocks,
                                             std::vector<Region>& pool);

} // namespace twofold
