// Blocks in M and K keep packed activations in the second-level cache while weights stream past.
#include "kernels/product.h"

#include "kernels/nvfp4_decode.h"

#include <algorithm>
#include <cstring>

namespace twofold {
namespace {

constexpr std::size_t alignment = 64;
constexpr std::int64_t cache_line = 64;
// K of a block: long enough that a tile's trips to memory are few, short enough that a panel and a strip
// share the first-level cache. Shallower products are not cut.
constexpr std::int64_t block_depth = 512;
constexpr std::int64_t whole_depth = 768;
// Columns that one task computes at most: sums of that many columns wait in cache between blocks of K.
constexpr std::int64_t group_columns = 512;
// More tasks than threads let them finish together.
constexpr std::int64_t tasks_a_thread = 4;

constexpr std::int64_t divided_up(std::int64_t value, std::int64_t by) {
    return (value + by - 1) / by;
}
constexpr std::int64_t rounded_up(std::int64_t value, std::int64_t to) {
    return divided_up(value, to) * to;
}
constexpr std::size_t aligned(std::size_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
}

std::int64_t depth_of_block(std::int64_t k) {
    return k <= whole_depth ? k : block_depth;
}

std::int64_t row_block_count(const Kernel& kernel, std::int64_t m) {
    return divided_up(rounded_up(m, kernel.strip), kernel.block_rows);
}

std::int64_t strips_in_block(const Kernel& kernel, std::int64_t m) {
    return divided_up(divided_up(m, kernel.strip), row_block_count(kernel, m));
}

std::size_t packed_bytes(const Kernel& kernel, std::int64_t m, std::int64_t k) {
    return aligned(static_cast<std::size_t>(rounded_up(m, kernel.strip) * rounded_up(k, kernel.depth)) *
                   kernel.element_bytes);
}

struct ScratchSizes {
    std::size_t panel;
    std::size_t tiles;
    std::size_t converted;

    ScratchSizes(const Kernel& kernel, std::int64_t m, std::int64_t k) {
        const std::int64_t depth = rounded_up(depth_of_block(k), kernel.depth);
        panel = aligned(static_cast<std::size_t>(kernel.panel * depth) * kernel.element_bytes);
        tiles = aligned(static_cast<std::size_t>(strips_in_block(kernel, m) * kernel.strip * group_columns) *
                        sizeof(float));
        converted = aligned(static_cast<std::size_t>(kernel.panel * depth) * sizeof(float));
    }
    [[nodiscard]] std::size_t total() const { return 2 * panel + tiles + converted; }
};

} // namespace

// One thread's own memory.
struct Product::Scratch {
    std::byte* panels[2]; // the one being multiplied, and the next one being decoded
    float* tiles;         // a group's sums, panel by panel, strip by strip
    float* converted;
};

std::size_t Product::work_size(const Kernel& kernel, std::int64_t m, std::int64_t k, int threads) {
    return alignment + packed_bytes(kernel, m, k) +
           static_cast<std::size_t>(threads) * ScratchSizes(kernel, m, k).total();
}

Product::Product(const Kernel& kernel, const WeightRows& weights, const FloatRows<const std::byte>& rows,
                 const FloatRows<std::byte>& results, void* work, int threads)
    : kernel_(kernel), weights_(weights), rows_(rows), results_(results), threads_(threads), m_(rows.size()),
      depth_step_(depth_of_block(weights.k)), strips_(divided_up(m_, kernel.strip)),
      panels_(divided_up(weights.count, kernel.panel)), row_blocks_(row_block_count(kernel, m_)),
      block_strips_(strips_in_block(kernel, m_)) {
    const auto address = reinterpret_cast<std::uintptr_t>(work);
    work_ = static_cast<std::byte*>(work) + (alignment - address % alignment) % alignment;
    const std::int64_t wanted = divided_up(tasks_a_thread * threads, row_blocks_);
    group_panels_ = std::clamp(panels_ / wanted, std::int64_t{1}, group_columns / kernel.panel);
    panel_groups_ = divided_up(panels_, group_panels_);
}

Product::Scratch Product::scratch(int thread) const {
    const ScratchSizes sizes(kernel_, m_, weights_.k);
    std::byte* base =
        work_ + packed_bytes(kernel_, m_, weights_.k) + static_cast<std::size_t>(thread) * sizes.total();
    std::byte* tiles = base + 2 * sizes.panel;
    return {.panels = {base, base + sizes.panel},
            .tiles = reinterpret_cast<float*>(tiles),
            .converted = reinterpret_cast<float*>(tiles + sizes.tiles)};
}

// A block in K of all strips lies together; `k` is its start.
std::byte* Product::packed_rows(std::int64_t strip, std::int64_t k) const {
    const std::int64_t depth = rounded_up(std::min(depth_step_, weights_.k - k), kernel_.depth);
    const std::int64_t elements = kernel_.strip * (strips_ * k + strip * depth);
    return work_ + static_cast<std::size_t>(elements) * kernel_.element_bytes;
}

void Product::pack(int thread) const {
    const float* rows[64];
    for (std::int64_t strip = thread; strip < strips_; strip += threads_) {
        const std::int64_t first = strip * kernel_.strip;
        const std::int64_t count = std::min(kernel_.strip, m_ - first);
        for (std::int64_t k = 0; k < weights_.k; k += depth_step_) {
            for (std::int64_t i = 0; i < count; ++i)
                rows[i] = reinterpret_cast<const float*>(rows_.row(first + i)) + k;
            kernel_.pack_rows(rows, count, std::min(depth_step_, weights_.k - k), packed_rows(strip, k));
        }
    }
}

void Product::begin() const {
    if (kernel_.begin)
        kernel_.begin();
}

void Product::end() const {
    if (kernel_.end)
        kernel_.end();
}

// Packs `count` weights from `k` of each of the panel's rows.
void Product::pack_weights(std::int64_t panel, std::int64_t k, std::int64_t count, std::byte* to,
                           float* converted) const {
    const std::int64_t first = panel * kernel_.panel;
    const std::int64_t rows = std::min(kernel_.panel, weights_.count - first);
    const std::uint8_t* from = weights_.data + static_cast<std::size_t>(first) * weights_.stride +
                               static_cast<std::size_t>(k / weights_.block_weights) * weights_.block_bytes;
    if (weights_.nvfp4 && kernel_.pack_nvfp4) {
        kernel_.pack_nvfp4(from, weights_.stride, rows, count, to);
        return;
    }
    for (std::int64_t i = 0; i < rows; ++i)
        weights_.to_float(from + static_cast<std::size_t>(i) * weights_.stride, converted + i * count, count);
    for (std::int64_t i = rows; i < kernel_.panel; ++i)
        std::memset(converted + i * count, 0, static_cast<std::size_t>(count) * sizeof(float));
    kernel_.pack_weights(converted, count, count, to);
}

// Asks for the share `part` of `parts` of a strip's activations for the block in K that starts at `k`.
void Product::fetch_rows(std::int64_t strip, std::int64_t k, std::int64_t part, std::int64_t parts) const {
    const std::int64_t depth = rounded_up(std::min(depth_step_, weights_.k - k), kernel_.depth);
    const std::int64_t lines =
        kernel_.strip * depth * static_cast<std::int64_t>(kernel_.element_bytes) / cache_line;
    const std::byte* from = packed_rows(strip, k);
    for (std::int64_t line = lines * part / parts; line < lines * (part + 1) / parts; ++line)
        __builtin_prefetch(from + line * cache_line, 0, 2);
}

// Asks for the encoded bytes of the panel's rows that pack_weights() will read.
void Product::fetch_weights(std::int64_t panel, std::int64_t k, std::int64_t count, std::int64_t from,
                            std::int64_t to) const {
    const std::int64_t first = panel * kernel_.panel;
    const std::size_t start = static_cast<std::size_t>(k / weights_.block_weights) * weights_.block_bytes;
    const auto bytes =
        static_cast<std::size_t>(divided_up(count, weights_.block_weights)) * weights_.block_bytes;
    for (std::int64_t row = first + from; row < std::min(first + to, weights_.count); ++row) {
        const std::uint8_t* data = weights_.data + static_cast<std::size_t>(row) * weights_.stride + start;
        for (std::size_t i = 0; i < bytes; i += cache_line)
            __builtin_prefetch(data + i, 0, 2);
        __builtin_prefetch(data + bytes - 1, 0, 2);
    }
}

// Asks for the results' memory that a tile goes to, to write.
void Product::fetch_results(std::int64_t strip, std::int64_t panel) const {
    const std::int64_t first_row = strip * kernel_.strip;
    const std::int64_t rows = std::min(kernel_.strip, m_ - first_row);
    const auto start = static_cast<std::size_t>(panel * kernel_.panel) * sizeof(float);
    const auto bytes = static_cast<std::size_t>(kernel_.panel) * sizeof(float);
    for (std::int64_t i = 0; i < rows; ++i) {
        const std::byte* to = results_.row(first_row + i) + start;
        for (std::size_t line = 0; line < bytes; line += cache_line)
            __builtin_prefetch(to + line, 1, 3);
    }
}

void Product::store(std::int64_t strip, std::int64_t panel, const float* tile) const {
    const std::int64_t first_row = strip * kernel_.strip;
    const std::int64_t first = panel * kernel_.panel;
    const std::int64_t rows = std::min(kernel_.strip, m_ - first_row);
    const auto bytes =
        static_cast<std::size_t>(std::min(kernel_.panel, weights_.count - first)) * sizeof(float);
    for (std::int64_t i = 0; i < rows; ++i)
        std::memcpy(results_.row(first_row + i) + static_cast<std::size_t>(first) * sizeof(float),
                    tile + i * kernel_.panel, bytes);
}

void Product::run(std::int64_t task, int thread) const {
    const Scratch own = scratch(thread);
    const std::int64_t block = task / panel_groups_;
    const std::int64_t first_strip = block * block_strips_;
    const std::int64_t strips = std::min(block_strips_, strips_ - first_strip);
    const std::int64_t first_panel = task % panel_groups_ * group_panels_;
    const std::int64_t panels = std::min(group_panels_, panels_ - first_panel);
    const std::int64_t depths = divided_up(weights_.k, depth_step_);
    const std::int64_t tile_size = kernel_.strip * kernel_.panel;
    // Weights are decoded in pieces of whole blocks that also fill whole vectors.
    const std::int64_t piece = std::max<std::int64_t>(weights_.block_weights, 64);

    const auto depth_of = [&](std::int64_t step) {
        return std::min(depth_step_, weights_.k - step / panels * depth_step_);
    };
    // Decodes the share `part` of `parts` of the panel that `step` multiplies.
    const auto decode = [&](std::int64_t step, std::int64_t part, std::int64_t parts) {
        const std::int64_t depth = depth_of(step);
        const std::int64_t pieces = divided_up(depth, piece);
        const std::int64_t from = pieces * part / parts * piece;
        const std::int64_t to = std::min(pieces * (part + 1) / parts * piece, depth);
        if (from >= to)
            return;
        std::byte* packed =
            own.panels[step % 2] + static_cast<std::size_t>(from * kernel_.panel) * kernel_.element_bytes;
        pack_weights(first_panel + step % panels, step / panels * depth_step_ + from, to - from, packed,
                     own.converted);
    };

    // Asks for the share `part` of `parts` of that panel's encoded rows.
    const auto fetch = [&](std::int64_t step, std::int64_t part, std::int64_t parts) {
        fetch_weights(first_panel + step % panels, step / panels * depth_step_, depth_of(step),
                      kernel_.panel * part / parts, kernel_.panel * (part + 1) / parts);
    };

    const std::int64_t steps = depths * panels;
    decode(0, 0, 1);
    for (std::int64_t step = 0; step < steps; ++step) {
        const std::int64_t depth_block = step / panels;
        const std::int64_t panel = step % panels;
        const std::int64_t depth = rounded_up(depth_of(step), kernel_.depth);
        const bool last = depth_block + 1 == depths;
        for (std::int64_t i = 0; i < strips; ++i) {
            const std::int64_t strip = first_strip + i;
            float* tile = own.tiles + (panel * block_strips_ + i) * tile_size;
            // Between multiplications, so that a processor with a separate unit for tiles overlaps the two.
            if (step + 1 < steps)
                decode(step + 1, i, strips);
            if (step + 2 < steps)
                fetch(step + 2, i, strips);
            if (last)
                fetch_results(strip, first_panel + panel);
            else
                fetch_rows(strip, (depth_block + 1) * depth_step_, panel, panels);
            kernel_.multiply(packed_rows(strip, depth_block * depth_step_), own.panels[step % 2], depth,
                             std::min(kernel_.strip, m_ - strip * kernel_.strip), tile, depth_block > 0);
            if (last)
                store(strip, first_panel + panel, tile);
        }
    }
}

} // namespace twofold
