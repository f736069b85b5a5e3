// Blocks in M and K keep packed activations in the second-level cache while weights pass by; a group of
// columns' weights is decoded once for all blocks in M.
#include "kernels/product.h"

#include "kernels/activations_a4.h"
#include "kernels/sizes.h"

#include <algorithm>
#include <cstring>

namespace twofold {
namespace {

// K of a block: long enough that a tile's trips to memory are few, short enough that a panel and a strip
// share the first-level cache. Shallower products are not cut.
constexpr std::int64_t block_depth = 512;
constexpr std::int64_t whole_depth = 768;
// Columns that one task computes at most: sums of that many columns wait in cache between blocks of K.
constexpr std::int64_t group_columns = 512;
constexpr std::int64_t max_panel = 64;
// More tasks than threads let them finish together.
constexpr std::int64_t tasks_a_thread = 4;

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

std::size_t scale_bytes(std::int64_t m) {
    return aligned(static_cast<std::size_t>(m) * sizeof(float));
}

// Columns of weights that a task packs at most; room for two panels at least.
std::int64_t group_limit(const Kernel& kernel, std::int64_t n) {
    return std::clamp(rounded_up(n, kernel.panel), 2 * kernel.panel, group_columns);
}

struct ScratchSizes {
    std::size_t weights;
    std::size_t tiles;
    std::size_t converted;

    ScratchSizes(const Kernel& kernel, std::int64_t m, std::int64_t n, std::int64_t k) {
        const std::int64_t columns = group_limit(kernel, n);
        weights =
            aligned(static_cast<std::size_t>(columns * rounded_up(k, kernel.depth)) * kernel.element_bytes);
        tiles = aligned(static_cast<std::size_t>(strips_in_block(kernel, m) * kernel.strip * columns) *
                        sizeof(float));
        converted = aligned(
            static_cast<std::size_t>(std::max(kernel.panel, kernel.strip) * std::min(k, whole_depth)) *
            sizeof(float));
    }
    [[nodiscard]] std::size_t total() const { return weights + tiles + converted; }
};

} // namespace

// One thread's own memory.
struct Product::Scratch {
    std::byte* weights; // a group's, packed: block of K by block of K, in each panel by panel
    float* tiles;       // a group's sums, panel by panel, in each strip by strip
    float* converted;   // a panel's weights, or a strip's rows, as FP32
};

std::size_t Product::work_size(const Kernel& kernel, std::int64_t m, std::int64_t n, std::int64_t k,
                               int threads) {
    return work_alignment + packed_bytes(kernel, m, k) + scale_bytes(m) +
           static_cast<std::size_t>(threads) * ScratchSizes(kernel, m, n, k).total();
}

Product::Product(const Kernel& kernel, const WeightRows& weights, const FloatRows<const std::byte>& rows,
                 const FloatRows<std::byte>& results, void* work, int threads, Activations activations)
    : kernel_(kernel), weights_(weights), rows_(rows), results_(results), threads_(threads),
      activations_(activations), m_(rows.size()), depth_step_(depth_of_block(weights.k)),
      strips_(divided_up(m_, kernel.strip)), panels_(divided_up(weights.count, kernel.panel)),
      block_strips_(strips_in_block(kernel, m_)) {
    work_ = first_aligned(work);
    const std::int64_t wanted = threads == 1 ? 1 : tasks_a_thread * threads;
    group_panels_ = std::clamp(panels_ / wanted, std::int64_t{1}, group_columns / kernel.panel);
    panel_groups_ = divided_up(panels_, group_panels_);
    // Few panels for many threads: each decodes a panel's weights for a part of the rows.
    const std::int64_t blocks = divided_up(strips_, block_strips_);
    part_blocks_ = divided_up(blocks, std::clamp(wanted / panel_groups_, std::int64_t{1}, blocks));
    row_parts_ = divided_up(blocks, part_blocks_);
}

Product::Scratch Product::scratch(int thread) const {
    const ScratchSizes sizes(kernel_, m_, weights_.count, weights_.k);
    std::byte* base = work_ + packed_bytes(kernel_, m_, weights_.k) + scale_bytes(m_) +
                      static_cast<std::size_t>(thread) * sizes.total();
    return {.weights = base,
            .tiles = reinterpret_cast<float*>(base + sizes.weights),
            .converted = reinterpret_cast<float*>(base + sizes.weights + sizes.tiles)};
}

// A block in K of all strips lies together; `k` is its start.
std::byte* Product::packed_rows(std::int64_t strip, std::int64_t k) const {
    const std::int64_t depth = rounded_up(std::min(depth_step_, weights_.k - k), kernel_.depth);
    const std::int64_t elements = kernel_.strip * (strips_ * k + strip * depth);
    return work_ + static_cast<std::size_t>(elements) * kernel_.element_bytes;
}

// Of each token, where activations have four bits.
float* Product::token_scales() const {
    return reinterpret_cast<float*>(work_ + packed_bytes(kernel_, m_, weights_.k));
}

void Product::pack(int thread) const {
    const bool four_bits = activations_ == Activations::a4;
    float* values = scratch(thread).converted;
    const float* rows[64];
    for (std::int64_t strip = thread; strip < strips_; strip += threads_) {
        const std::int64_t first = strip * kernel_.strip;
        const std::int64_t count = std::min(kernel_.strip, m_ - first);
        for (std::int64_t i = first; four_bits && i < first + count; ++i)
            token_scales()[i] = a4_token_scale(reinterpret_cast<const float*>(rows_.row(i)), weights_.k);
        for (std::int64_t k = 0; k < weights_.k; k += depth_step_) {
            const std::int64_t depth = std::min(depth_step_, weights_.k - k);
            for (std::int64_t i = 0; i < count; ++i) {
                rows[i] = reinterpret_cast<const float*>(rows_.row(first + i)) + k;
                if (four_bits) {
                    a4_round(rows[i], depth, token_scales()[first + i], values + i * depth);
                    rows[i] = values + i * depth;
                }
            }
            kernel_.pack_rows(rows, count, depth, packed_rows(strip, k));
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

// Where the results of a whole tile go, as rows of `stride` values; null for a tile at an edge, or when rows
// are not evenly spaced or wait for their token's scale.
float* Product::place(std::int64_t strip, std::int64_t panel) const {
    const std::int64_t first_row = strip * kernel_.strip;
    const std::int64_t first = panel * kernel_.panel;
    const bool whole = first_row + kernel_.strip <= m_ && first + kernel_.panel <= weights_.count;
    const bool even = first_row / results_.count[0] == (first_row + kernel_.strip - 1) / results_.count[0] &&
                      results_.stride[0] % sizeof(float) == 0 && activations_ == Activations::bf16;
    return whole && even ? reinterpret_cast<float*>(results_.row(first_row)) + first : nullptr;
}

void Product::store(std::int64_t strip, std::int64_t panel, const float* tile) const {
    const std::int64_t first_row = strip * kernel_.strip;
    const std::int64_t first = panel * kernel_.panel;
    const std::int64_t rows = std::min(kernel_.strip, m_ - first_row);
    const std::int64_t columns = std::min(kernel_.panel, weights_.count - first);
    for (std::int64_t i = 0; i < rows; ++i) {
        std::byte* to = results_.row(first_row + i) + static_cast<std::size_t>(first) * sizeof(float);
        const float* from = tile + i * kernel_.panel;
        float scaled[max_panel];
        if (activations_ == Activations::a4) {
            for (std::int64_t j = 0; j < columns; ++j)
                scaled[j] = from[j] * token_scales()[first_row + i];
            from = scaled;
        }
        std::memcpy(to, from, static_cast<std::size_t>(columns) * sizeof(float));
    }
}

void Product::run(std::int64_t task, int thread) const {
    const Scratch own = scratch(thread);
    const std::int64_t first_panel = task % panel_groups_ * group_panels_;
    const std::int64_t panels = std::min(group_panels_, panels_ - first_panel);
    const std::int64_t first_block = task / panel_groups_ * part_blocks_;
    const std::int64_t end_strip = std::min((first_block + part_blocks_) * block_strips_, strips_);
    const std::int64_t tile_size = kernel_.strip * kernel_.panel;
    const bool once = end_strip - first_block * block_strips_ <= block_strips_;
    const auto row_stride = static_cast<std::int64_t>(results_.stride[0] / sizeof(float));

    for (std::int64_t first_strip = first_block * block_strips_; first_strip < end_strip;
         first_strip += block_strips_) {
        const bool packing = first_strip == first_block * block_strips_;
        const std::int64_t strips = std::min(block_strips_, end_strip - first_strip);
        for (std::int64_t k = 0; k < weights_.k; k += depth_step_) {
            const std::int64_t count = std::min(depth_step_, weights_.k - k);
            const std::int64_t depth = rounded_up(count, kernel_.depth);
            const bool last = k + depth_step_ >= weights_.k;
            for (std::int64_t panel = 0; panel < panels; ++panel) {
                // Weights that no later block of rows needs take turns in the same memory, and in cache.
                const std::int64_t offset = once ? panel % 2 * depth : panels * k + panel * depth;
                std::byte* packed =
                    own.weights + static_cast<std::size_t>(offset * kernel_.panel) * kernel_.element_bytes;
                if (packing) // just before its first use: it is in cache then
                    pack_weights(first_panel + panel, k, count, packed, own.converted);
                for (std::int64_t i = 0; i < strips; ++i) {
                    const std::int64_t strip = first_strip + i;
                    float* tile = own.tiles + (panel * block_strips_ + i) * tile_size;
                    float* result = last ? place(strip, first_panel + panel) : nullptr;
                    kernel_.multiply(packed_rows(strip, k), packed, depth,
                                     std::min(kernel_.strip, m_ - strip * kernel_.strip),
                                     k > 0 ? tile : nullptr, result ? result : tile,
                                     result ? row_stride : kernel_.panel);
                    if (last && !result)
                        store(strip, first_panel + panel, tile);
                }
            }
        }
    }
}

} // namespace twofold
