// A task is a block of tokens for all query heads that share keys: each tile of keys is packed once for it.
#include "kernels/attention.h"

#include "kernels/bf16.h"
#include "kernels/sizes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace twofold {
namespace {

// Keys of a tile: what is packed of them and of their values fits the second-level cache beside a block's
// queries and sums, and a strip's scores the first-level one.
constexpr std::int64_t tile_keys = 256;
constexpr std::int64_t max_strip = 32;
// K of a block of rows that fills half of a second-level cache; see Kernel::block_rows.
constexpr std::int64_t block_depth = 512;
// More tasks than threads lets them finish together.
constexpr std::int64_t tasks_a_thread = 4;
constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr std::uint16_t hidden = 0xFC00; // -infinity as a half float

// Whether four keys are.
bool all_hidden(const std::uint16_t* mask) {
    std::uint64_t four = 0;
    std::memcpy(&four, mask, sizeof four);
    return four == 0x0001000100010001U * hidden;
}

// What rounding to BF16 leaves of each number.
void rests(const float* values, std::int64_t count, float* left) {
    for (std::int64_t i = 0; i < count; ++i)
        left[i] = values[i] - round_to_bf16(values[i]);
}

std::size_t bytes_of(const Kernel& kernel, std::int64_t elements) {
    return aligned(static_cast<std::size_t>(elements) * kernel.element_bytes);
}
std::size_t float_bytes(std::int64_t count) {
    return aligned(static_cast<std::size_t>(count) * sizeof(float));
}

// Keys are taken in whole steps: panels in scores, depths in sums of values.
std::int64_t key_step(const Kernel& kernel) {
    return std::max(kernel.panel, kernel.depth);
}

} // namespace

// The keys of a tile that some token of a strip sees: [first, end), in the tile.
struct Attention::Span {
    std::int32_t first;
    std::int32_t end;
    bool plain; // all of them are seen by all, with nothing added to their scores
};

// A block of tokens, for the query heads that share a head of keys.
struct Attention::Block {
    std::int64_t sequence;
    std::int64_t key_head;
    std::int64_t first_strip;
    std::int64_t strips;
};

namespace {

struct Sizes {
    std::int64_t group;
    std::int64_t strips;
    std::int64_t block_strips;
    std::int64_t tiles;
    std::int64_t planes; // of the mask
    std::int64_t key_depth;
    std::int64_t value_panels;

    // Of one thread's memory, in this order.
    std::size_t queries;
    std::size_t keys;
    std::size_t values;
    std::size_t converted;
    std::size_t scores;
    std::size_t weights;
    std::size_t bias;
    std::size_t sums;
    std::size_t rows; // largest score and sum of each

    Sizes(const Kernel& kernel, bool split, const AttentionOperands& given, int threads) {
        group = given.queries.heads / given.keys.heads;
        strips = divided_up(given.tokens, kernel.strip);
        tiles = divided_up(given.cached, tile_keys);
        planes = given.mask.data ? given.mask.heads * given.mask.sequences : 1;
        key_depth = rounded_up((split ? 3 : 1) * given.key_size, kernel.depth);
        value_panels = divided_up(given.value_size, kernel.panel);
        const std::int64_t padded = value_panels * kernel.panel;
        // As many rows as fit beside a tile, in tasks of equal size, enough of them for all threads.
        const auto element = static_cast<std::int64_t>(kernel.element_bytes);
        const auto wide = static_cast<std::int64_t>(sizeof(float));
        const std::int64_t room = kernel.block_rows * block_depth * element;
        const std::int64_t most = room / (key_depth * element + padded * wide) / (group * kernel.strip);
        const std::int64_t others = given.keys.heads * given.queries.sequences;
        const std::int64_t wanted = threads == 1 ? 1 : divided_up(tasks_a_thread * threads, others);
        const std::int64_t blocks =
            std::max(divided_up(strips, std::max(most, std::int64_t{1})), std::min(wanted, strips));
        block_strips = divided_up(strips, blocks);

        const std::int64_t block_rows = block_strips * group * kernel.strip;
        queries = bytes_of(kernel, block_rows * key_depth);
        keys = bytes_of(kernel, tile_keys * key_depth);
        values = bytes_of(kernel, (split ? 2 : 1) * tile_keys * padded);
        converted =
            float_bytes(std::max(std::max(kernel.panel, kernel.strip) * key_depth, tile_keys * padded));
        scores = float_bytes(kernel.strip * tile_keys);
        weights = bytes_of(kernel, (split ? 2 : 1) * kernel.strip * tile_keys);
        bias = float_bytes(tile_keys);
        sums = float_bytes(block_rows * padded);
        rows = float_bytes(block_rows);
    }
    [[nodiscard]] std::size_t of_thread() const {
        return queries + keys + values + converted + scores + weights + bias + sums + 2 * rows;
    }
};

} // namespace

// One thread's own memory.
struct Attention::Scratch {
    std::byte* queries; // packed: strip by strip, head by head
    std::byte* keys;    // a tile's, packed panel by panel
    std::byte* values;  // a tile's, packed panel by panel, a panel being columns of values
    float* converted;   // FP32 on the way to being packed
    float* scores;      // a strip's, in a tile
    std::byte* weights; // those after softmax, packed
    float* bias;        // of a token in a tile
    float* sums;        // of values, unscaled: strip by strip as queries, in each panel by panel
    float* largest;     // score of each row so far
    float* total;       // of each row's weights so far

    Scratch(std::byte* base, const Sizes& sizes) {
        const auto take = [&base](std::size_t bytes) {
            std::byte* taken = base;
            base += bytes;
            return taken;
        };
        const auto take_floats = [&take](std::size_t bytes) { return reinterpret_cast<float*>(take(bytes)); };
        queries = take(sizes.queries);
        keys = take(sizes.keys);
        values = take(sizes.values);
        converted = take_floats(sizes.converted);
        scores = take_floats(sizes.scores);
        weights = take(sizes.weights);
        bias = take_floats(sizes.bias);
        sums = take_floats(sizes.sums);
        largest = take_floats(sizes.rows);
        total = take_floats(sizes.rows);
    }
};

namespace {

const Kernel* attending(const Kernel* chosen) {
    return chosen->attention ? chosen->attention : chosen;
}

} // namespace

std::size_t Attention::work_size(const Kernel& kernel, const AttentionOperands& operands, int threads) {
    const Sizes sizes(*attending(&kernel), !kernel.attention, operands, threads);
    return work_alignment +
           aligned(static_cast<std::size_t>(sizes.planes * sizes.strips * sizes.tiles) * sizeof(Span)) +
           static_cast<std::size_t>(threads) * sizes.of_thread();
}

Attention::Attention(const Kernel& kernel, const AttentionOperands& operands, void* work, int threads)
    : kernel_(*attending(&kernel)), split_(!kernel.attention), operands_(operands), threads_(threads) {
    work_ = first_aligned(work);
    const Sizes sizes(kernel_, split_, operands, threads);
    group_ = sizes.group;
    strips_ = sizes.strips;
    block_strips_ = sizes.block_strips;
    blocks_ = divided_up(strips_, block_strips_);
    tiles_ = sizes.tiles;
    key_depth_ = sizes.key_depth;
    value_panels_ = sizes.value_panels;
}

Attention::Scratch Attention::scratch(int thread) const {
    const Sizes sizes(kernel_, split_, operands_, threads_);
    const auto spans = static_cast<std::size_t>(sizes.planes * sizes.strips * sizes.tiles) * sizeof(Span);
    return {work_ + aligned(spans) + static_cast<std::size_t>(thread) * sizes.of_thread(), sizes};
}

std::int64_t Attention::task_count() const {
    return blocks_ * operands_.keys.heads * operands_.queries.sequences;
}

void Attention::begin() const {
    if (kernel_.begin)
        kernel_.begin();
}

void Attention::end() const {
    if (kernel_.end)
        kernel_.end();
}

Attention::Span& Attention::span(std::int64_t head, std::int64_t sequence, std::int64_t strip,
                                 std::int64_t tile) const {
    const HeadRows& mask = operands_.mask;
    const std::int64_t plane = mask.data ? sequence % mask.sequences * mask.heads + head % mask.heads : 0;
    return reinterpret_cast<Span*>(work_)[(plane * strips_ + strip) * tiles_ + tile];
}

void Attention::scan(int thread) const {
    const HeadRows& mask = operands_.mask;
    const std::int64_t planes = mask.data ? mask.heads * mask.sequences : 1;
    for (std::int64_t i = thread; i < planes * strips_; i += threads_) {
        const std::int64_t plane = i / strips_;
        for (std::int64_t tile = 0; tile < tiles_; ++tile)
            reinterpret_cast<Span*>(work_)[i * tiles_ + tile] =
                scanned(plane % mask.heads, plane / mask.heads, i % strips_, tile);
    }
}

Attention::Span Attention::scanned(std::int64_t head, std::int64_t sequence, std::int64_t strip,
                                   std::int64_t tile) const {
    const std::int64_t first_key = tile * tile_keys;
    const auto count = static_cast<std::int32_t>(std::min(tile_keys, operands_.cached - first_key));
    if (!operands_.mask.data)
        return {.first = 0, .end = count, .plain = true};
    Span found{.first = count, .end = 0, .plain = true};
    const std::int64_t first_token = strip * kernel_.strip;
    const std::int64_t end_token = std::min(first_token + kernel_.strip, operands_.tokens);
    for (std::int64_t token = first_token; token < end_token; ++token) {
        const auto* row =
            reinterpret_cast<const std::uint16_t*>(operands_.mask.row(token, head, sequence)) + first_key;
        std::int32_t first = 0;
        std::int32_t end = count;
        while (first + 4 <= end && all_hidden(row + first))
            first += 4;
        while (first < end && row[first] == hidden)
            ++first;
        while (end - 4 >= first && all_hidden(row + end - 4))
            end -= 4;
        while (end > first && row[end - 1] == hidden)
            --end;
        if (first == end) {
            found.plain = false;
            continue;
        }
        if (first != 0 || end != count)
            found.plain = false;
        if (found.plain) {
            std::uint16_t any = 0;
            for (std::int32_t i = 0; i < count; ++i)
                any = static_cast<std::uint16_t>(any | row[i]);
            found.plain = any == 0;
        }
        found.first = std::min(found.first, first);
        found.end = std::max(found.end, end);
    }
    return found;
}

float Attention::slope(std::int64_t head) const {
    if (operands_.max_bias <= 0)
        return 1;
    const auto heads = static_cast<std::uint64_t>(operands_.queries.heads);
    const auto regular = static_cast<std::int64_t>(std::bit_floor(heads));
    const auto power = static_cast<float>(head < regular ? head + 1 : 2 * (head - regular) + 1);
    const float base = std::exp2(-(head < regular ? operands_.max_bias : operands_.max_bias / 2) /
                                 static_cast<float>(regular));
    return std::pow(base, power);
}

void Attention::pack_queries(const Block& block, const Scratch& own) const {
    const std::size_t strip_bytes =
        static_cast<std::size_t>(kernel_.strip * key_depth_) * kernel_.element_bytes;
    const std::int64_t size = operands_.key_size;
    const float* rows[max_strip];
    for (std::int64_t member = 0; member < group_; ++member) {
        for (std::int64_t i = 0; i < block.strips; ++i) {
            const std::int64_t first = (block.first_strip + i) * kernel_.strip;
            const std::int64_t count = std::min(kernel_.strip, operands_.tokens - first);
            for (std::int64_t row = 0; row < count; ++row) {
                rows[row] = reinterpret_cast<const float*>(
                    operands_.queries.row(first + row, block.key_head * group_ + member, block.sequence));
                if (split_) {
                    float* to = own.converted + row * 3 * size;
                    std::copy_n(rows[row], size, to);
                    rests(to, size, to + size);
                    std::copy_n(rows[row], size, to + 2 * size);
                    rows[row] = to;
                }
            }
            kernel_.pack_rows(rows, count, (split_ ? 3 : 1) * size,
                              own.queries +
                                  static_cast<std::size_t>(member * block.strips + i) * strip_bytes);
        }
    }
}

// Packs keys and values [first, end) of the cache, which start at a tile's start or a whole number of steps
// after it, into their places in the tile; up to the next whole step zeros follow.
void Attention::pack_tile(const Block& block, std::int64_t first, std::int64_t end,
                          const Scratch& own) const {
    const auto read = [&block](const HeadRows& from, std::int64_t token, float* to, std::int64_t count) {
        const std::byte* row = from.row(token, block.key_head, block.sequence);
        if (from.to_float)
            from.to_float(row, to, count);
        else
            std::memcpy(to, row, static_cast<std::size_t>(count) * sizeof(float));
    };
    const std::int64_t in_tile = first % tile_keys;
    const std::int64_t step = key_step(kernel_);
    const std::int64_t whole = rounded_up(end - first, step);

    const std::int64_t size = operands_.key_size;
    for (std::int64_t key = 0; key < whole; key += kernel_.panel) {
        const std::int64_t count = std::clamp(end - first - key, std::int64_t{0}, kernel_.panel);
        const std::int64_t parts = (split_ ? 3 : 1) * size;
        for (std::int64_t i = 0; i < count; ++i) {
            float* to = own.converted + i * parts;
            read(operands_.keys, first + key + i, to, size);
            if (split_) {
                std::copy_n(to, size, to + size);
                rests(to, size, to + 2 * size);
            }
        }
        std::fill(own.converted + count * parts, own.converted + kernel_.panel * parts, 0.0F);
        kernel_.pack_weights(own.converted, parts, parts,
                             own.keys + static_cast<std::size_t>((in_tile + key) * key_depth_) *
                                            kernel_.element_bytes);
    }

    const std::int64_t padded = value_panels_ * kernel_.panel;
    for (std::int64_t key = 0; key < whole; ++key) {
        float* row = own.converted + key * padded;
        const std::int64_t count = key < end - first ? operands_.value_size : 0;
        if (count > 0)
            read(operands_.values, first + key, row, count);
        std::fill(row + count, row + padded, 0.0F);
    }
    for (std::int64_t part = 0; part < (split_ ? 2 : 1); ++part) {
        if (part == 1)
            rests(own.converted, whole * padded, own.converted);
        for (std::int64_t panel = 0; panel < value_panels_; ++panel)
            kernel_.pack_columns(own.converted + panel * kernel_.panel, padded, whole,
                                 values(own, part, panel, in_tile));
    }
}

std::byte* Attention::values(const Scratch& own, std::int64_t part, std::int64_t panel,
                             std::int64_t key) const {
    const std::int64_t rows = (part * value_panels_ + panel) * tile_keys + key;
    return own.values + static_cast<std::size_t>(rows * kernel_.panel) * kernel_.element_bytes;
}

// A strip of one head meets the keys that it sees in a tile.
void Attention::attend(const Block& block, std::int64_t member, std::int64_t strip, std::int64_t tile,
                       const Scratch& own) const {
    const std::int64_t head = block.key_head * group_ + member;
    const Span seen = span(head, block.sequence, block.first_strip + strip, tile);
    if (seen.first >= seen.end)
        return;
    const std::int64_t step = key_step(kernel_);
    const std::int64_t first = seen.first / step * step;
    const std::int64_t count = rounded_up(seen.end, step) - first;
    const std::int64_t cached = std::min(operands_.cached - tile * tile_keys, first + count) - first;
    const std::int64_t first_token = (block.first_strip + strip) * kernel_.strip;
    const std::int64_t used = std::min(kernel_.strip, operands_.tokens - first_token);
    const std::int64_t index = member * block.strips + strip;
    const std::byte* queries =
        own.queries + static_cast<std::size_t>(index * kernel_.strip * key_depth_) * kernel_.element_bytes;

    for (std::int64_t key = 0; key < count; key += kernel_.panel)
        kernel_.multiply(
            queries, own.keys + static_cast<std::size_t>((first + key) * key_depth_) * kernel_.element_bytes,
            key_depth_, used, nullptr, own.scores + key, tile_keys);

    float* largest = own.largest + index * kernel_.strip;
    float* total = own.total + index * kernel_.strip;
    const std::int64_t tile_size = kernel_.strip * kernel_.panel;
    float* sums = own.sums + index * value_panels_ * tile_size;
    const bool plain = seen.plain && cached == count;
    const float slope_of_head = plain ? 1.0F : slope(head);
    const float softcap = operands_.softcap;
    const float scale = softcap == 0 ? operands_.scale : operands_.scale / softcap;
    const float* rows[max_strip];
    for (std::int64_t row = 0; row < used; ++row) {
        float* scores = own.scores + row * tile_keys;
        rows[row] = scores;
        if (!plain) {
            if (operands_.mask.data) {
                const std::byte* from = operands_.mask.row(first_token + row, head % operands_.mask.heads,
                                                           block.sequence % operands_.mask.sequences);
                operands_.mask.to_float(from + static_cast<std::size_t>(tile * tile_keys + first) *
                                                   sizeof(std::uint16_t),
                                        own.bias, cached);
                if (slope_of_head != 1.0F) {
                    for (std::int64_t i = 0; i < cached; ++i)
                        own.bias[i] *= slope_of_head;
                }
            } else {
                std::fill_n(own.bias, cached, 0.0F);
            }
            std::fill(own.bias + cached, own.bias + count, -infinity);
        }
        const float top = std::max(
            largest[row], kernel_.scale_scores(scores, plain ? nullptr : own.bias, count, scale, softcap));
        if (top == -infinity) { // each score is hidden or not a number
            if (std::any_of(scores, scores + count, [](float score) { return std::isnan(score); }))
                total[row] = std::numeric_limits<float>::quiet_NaN();
            std::fill_n(scores, count, 0.0F);
            continue;
        }
        if (top > largest[row]) {
            const float factor = std::exp(largest[row] - top);
            total[row] *= factor;
            for (std::int64_t panel = 0; panel < value_panels_; ++panel) {
                float* values = sums + panel * tile_size + row * kernel_.panel;
                for (std::int64_t i = 0; i < kernel_.panel; ++i)
                    values[i] *= factor;
            }
            largest[row] = top;
        }
        total[row] += kernel_.exponentiate(scores, count, top);
    }
    kernel_.pack_rows(rows, used, count, own.weights);
    std::byte* rest =
        own.weights + static_cast<std::size_t>(kernel_.strip * tile_keys) * kernel_.element_bytes;
    if (split_) {
        for (std::int64_t row = 0; row < used; ++row)
            rests(rows[row], count, own.scores + row * tile_keys);
        kernel_.pack_rows(rows, used, count, rest);
    }
    for (std::int64_t panel = 0; panel < value_panels_; ++panel) {
        float* to = sums + panel * tile_size;
        const auto add = [&](const std::byte* weights, std::int64_t part) {
            kernel_.multiply(weights, values(own, part, panel, first), count, used, to, to, kernel_.panel);
        };
        add(own.weights, 0);
        if (split_) {
            add(rest, 0);
            add(own.weights, 1);
        }
    }
}

void Attention::finish(const Block& block, const Scratch& own) const {
    const std::int64_t size = operands_.value_size;
    for (std::int64_t member = 0; member < group_; ++member) {
        const std::int64_t head = block.key_head * group_ + member;
        for (std::int64_t i = 0; i < block.strips; ++i) {
            const std::int64_t index = member * block.strips + i;
            const std::int64_t first = (block.first_strip + i) * kernel_.strip;
            const std::int64_t used = std::min(kernel_.strip, operands_.tokens - first);
            for (std::int64_t row = 0; row < used; ++row) {
                const float largest = own.largest[index * kernel_.strip + row];
                float total = own.total[index * kernel_.strip + row];
                float factor = 1;
                if (operands_.sinks) {
                    const float sink = operands_.sinks[head];
                    const float top = std::max(largest, sink);
                    factor = std::exp(largest - top);
                    total = total * factor + std::exp(sink - top);
                }
                factor = total == 0 ? 0 : factor / total;
                float* to =
                    operands_.out +
                    ((block.sequence * operands_.tokens + first + row) * operands_.queries.heads + head) *
                        size;
                for (std::int64_t at = 0; at < size; ++at) {
                    const std::int64_t panel = index * value_panels_ + at / kernel_.panel;
                    to[at] =
                        own.sums[(panel * kernel_.strip + row) * kernel_.panel + at % kernel_.panel] * factor;
                }
            }
        }
    }
}

void Attention::run(std::int64_t task, int thread) const {
    const Scratch own = scratch(thread);
    // The last tokens see the most keys: longest tasks first.
    const std::int64_t others = operands_.keys.heads * operands_.queries.sequences;
    const std::int64_t first_strip = (blocks_ - 1 - task / others) * block_strips_;
    const Block block{.sequence = task % others / operands_.keys.heads,
                      .key_head = task % operands_.keys.heads,
                      .first_strip = first_strip,
                      .strips = std::min(block_strips_, strips_ - first_strip)};
    const std::int64_t rows = group_ * block.strips * kernel_.strip;
    std::fill_n(own.largest, rows, -infinity);
    std::fill_n(own.total, rows, 0.0F);
    std::fill_n(own.sums, rows * value_panels_ * kernel_.panel, 0.0F);
    pack_queries(block, own);

    const std::int64_t step = key_step(kernel_);
    for (std::int64_t tile = 0; tile < tiles_; ++tile) {
        std::int64_t first = tile_keys;
        std::int64_t end = 0;
        for (std::int64_t member = 0; member < group_; ++member) {
            for (std::int64_t i = 0; i < block.strips; ++i) {
                const Span seen =
                    span(block.key_head * group_ + member, block.sequence, block.first_strip + i, tile);
                if (seen.first < seen.end) {
                    first = std::min<std::int64_t>(first, seen.first / step * step);
                    end = std::max<std::int64_t>(end, seen.end);
                }
            }
        }
        if (first >= end)
            continue;
        const std::int64_t start = tile * tile_keys;
        const std::int64_t whole = std::min(start + rounded_up(end, step), operands_.cached);
        pack_tile(block, start + first, whole, own);
        for (std::int64_t member = 0; member < group_; ++member) {
            for (std::int64_t i = 0; i < block.strips; ++i)
                attend(block, member, i, tile, own);
        }
    }
    finish(block, own);
}

} // namespace twofold
