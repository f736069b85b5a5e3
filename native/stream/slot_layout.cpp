// First-fit placing of file ranges into pages of memory.
#include "stream/slot_layout.h"

#include <algorithm>
#include <numeric>

namespace twofold {
namespace {

std::uintptr_t page_up(std::uintptr_t value) {
    return (value + slot_alignment - 1) / slot_alignment * slot_alignment;
}

std::uintptr_t address(const std::byte* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer);
}

// Ranges `first` .. `first + count` of the caller's list, sorted by file position.
struct Run {
    FileRange bytes;
    std::vector<std::size_t> members;
};

std::vector<Run> contiguous_runs(std::span<const FileRange> ranges) {
    std::vector<std::size_t> order(ranges.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
        return std::pair(ranges[a].file, ranges[a].offset) < std::pair(ranges[b].file, ranges[b].offset);
    });
    std::vector<Run> runs;
    for (const std::size_t index : order) {
        const FileRange& range = ranges[index];
        if (!runs.empty()) {
            FileRange& last = runs.back().bytes;
            const std::uint64_t end = last.offset + last.size;
            if (last.file == range.file && range.offset >= end && range.offset - end < slot_alignment) {
                last.size = static_cast<std::size_t>(range.offset + range.size - last.offset);
                runs.back().members.push_back(index);
                continue;
            }
        }
        runs.push_back({range, {index}});
    }
    return runs;
}

// Cursors over regions; a region is used up to `limit` and owned up to `end`.
struct Cursor {
    std::uintptr_t at;
    std::uintptr_t limit;
};

bool put(const FileRange& bytes, std::vector<Cursor>& cursors, std::byte*& data) {
    for (Cursor& cursor : cursors) {
        const std::uintptr_t first = page_up(cursor.at);
        const std::uintptr_t start = first + bytes.offset % slot_alignment;
        const std::uintptr_t end = page_up(start + bytes.size);
        if (end > cursor.limit)
            continue;
        cursor.at = end;
        data = reinterpret_cast<std::byte*>(start);
        return true;
    }
    return false;
}

std::optional<Placement> place_at(std::span<const FileRange> ranges, std::vector<Cursor>& cursors) {
    Placement placement;
    placement.tensors.resize(ranges.size());
    std::vector<Run> runs = contiguous_runs(ranges);
    std::ranges::stable_sort(runs, [](const Run& a, const Run& b) { return a.bytes.size > b.bytes.size; });
    std::vector<std::size_t> loose;
    for (const Run& run : runs) {
        std::byte* data = nullptr;
        if (!put(run.bytes, cursors, data)) {
            loose.insert(loose.end(), run.members.begin(), run.members.end());
            continue;
        }
        placement.reads.push_back({run.bytes, data});
        for (const std::size_t index : run.members)
            placement.tensors[index] = data + (ranges[index].offset - run.bytes.offset);
    }
    std::ranges::stable_sort(loose,
                             [&](std::size_t a, std::size_t b) { return ranges[a].size > ranges[b].size; });
    for (const std::size_t index : loose) {
        std::byte* data = nullptr;
        if (!put(ranges[index], cursors, data))
            return std::nullopt;
        placement.reads.push_back({ranges[index], data});
        placement.tensors[index] = data;
    }
    return placement;
}

} // namespace

std::size_t placed_size(std::span<const FileRange> ranges) {
    std::size_t total = 0;
    for (const Run& run : contiguous_runs(ranges))
        total += page_up(run.bytes.offset % slot_alignment + run.bytes.size);
    return total;
}

std::optional<Placement> place(std::span<const FileRange> ranges, std::span<const Region> regions) {
    std::vector<Cursor> cursors;
    for (const Region& region : regions)
        cursors.push_back({address(region.begin), address(region.begin) + region.size});
    return place_at(ranges, cursors);
}

std::optional<std::vector<Region>> take_slot(std::span<const std::vector<FileRange>> blocks,
                                             std::vector<Region>& pool) {
    // How far into each region of the pool this slot reaches; blocks share the same bytes.
    std::vector<std::uintptr_t> reach;
    for (const Region& region : pool)
        reach.push_back(address(region.begin));

    std::vector<std::size_t> order(blocks.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(
        order, [&](std::size_t a, std::size_t b) { return placed_size(blocks[a]) > placed_size(blocks[b]); });
    for (const std::size_t block : order) {
        std::vector<Cursor> within;
        std::vector<Cursor> beyond;
        for (std::size_t i = 0; i < pool.size(); ++i) {
            const std::uintptr_t begin = address(pool[i].begin);
            within.push_back({begin, reach[i]});
            beyond.push_back({begin, begin + pool[i].size});
        }
        if (place_at(blocks[block], within))
            continue;
        if (!place_at(blocks[block], beyond))
            return std::nullopt;
        for (std::size_t i = 0; i < pool.size(); ++i)
            reach[i] = std::max(reach[i], beyond[i].at);
    }

    std::vector<Region> taken;
    std::vector<Region> left;
    for (std::size_t i = 0; i < pool.size(); ++i) {
        const std::size_t used = reach[i] - address(pool[i].begin);
        if (used > 0)
            taken.push_back({pool[i].begin, used});
        if (pool[i].size > used)
            left.push_back({pool[i].begin + used, pool[i].size - used});
    }
    // First fit may fail where there is more room: a range then lands earlier and is in another's way.
    for (const auto& ranges : blocks) {
        if (!place(ranges, taken))
            return std::nullopt;
    }
    pool = std::move(left);
    return taken;
}

} // namespace twofold
