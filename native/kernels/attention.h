// Attention of a prompt's tokens over the cache, cut into tasks that threads take one after the other.
//
//     Attention attention(kernel, operands, work, threads);  // the same on each thread
//     attention.scan(thread);         // each thread once
//     ... all threads meet ...
//     attention.run(task, thread);    // each task once, on any thread, between begin() and end()
//
// Scores, softmax and sums of a block of tokens stay in cache while keys and values pass by, as in
// FlashAttention (arXiv 2205.14135). All is FP32, as the library computes it: scores are exponents, in which
// BF16's roundings would show. A kernel that multiplies nothing but BF16 takes operands in two parts, a
// rounded one and what rounding left, without the product of the two rests: 16 significant bits.
// A result depends on the operands and their shapes alone: not on threads, addresses or other tokens.
#pragma once

#include "kernels/kernel.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace twofold {

// One row for each token (of the prompt or of the cache), head and sequence; row-major within.
struct HeadRows {
    const std::byte* data = nullptr;
    std::int64_t heads = 1;
    std::int64_t sequences = 1;
    std::array<std::size_t, 3> stride{}; // bytes from token to token, head to head, sequence to sequence
    // Null: FP32 already.
    void (*to_float)(const void* from, float* to, std::int64_t count) = nullptr;

    [[nodiscard]] const std::byte* row(std::int64_t token, std::int64_t head, std::int64_t sequence) const {
        return data + static_cast<std::size_t>(token) * stride[0] +
               static_cast<std::size_t>(head) * stride[1] + static_cast<std::size_t>(sequence) * stride[2];
    }
};

struct AttentionOperands {
    std::int64_t tokens = 0; // of the prompt, in each sequence
    std::int64_t cached = 0; // tokens with keys and values
    std::int64_t key_size = 0;
    std::int64_t value_size = 0;
    HeadRows queries; // FP32
    HeadRows
        keys; // each head serves as many heads of queries as there are more of those, each sequence likewise
    HeadRows values; // of as many heads as keys; all have as many sequences as queries
    // hides a key. No data: nothing is hidden.
    HeadRows mask;
    const float* sinks = nullptr; // one score for each head that has no value; may be null
    float scale = 1;
    float softcap = 0;
    float max_bias = 0;   // of ALiBi's slopes (arXiv 2108.12409); 0: all slopes are 1
    float* out = nullptr; // [sequence][token][head][value_size]
};

class Attention {
  public:
    // `work` has work_size() bytes, any alignment.
    Attention(const Kernel& kernel, const AttentionOperands& operands, void* work, int threads);

    static std::size_t work_size(const Kernel& kernel, const AttentionOperands& operands, int threads);

    void scan(int thread) const;
    [[nodiscard]] std::int64_t task_count() const;
    void begin() const;
    void run(std::int64_t task, int thread) const;
    void end() const;

  private:
    struct Span;
    struct Scratch;
    struct Block;
    [[nodiscard]] Scratch scratch(int thread) const;
    [[nodiscard]] Span& span(std::int64_t head, std::int64_t sequence, std::int64_t strip,
                             std::int64_t tile) const;
    [[nodiscard]] Span scanned(std::int64_t head, std::int64_t sequence, std::int64_t strip,
                               std::int64_t tile) const;
    [[nodiscard]] float slope(std::int64_t head) const;
    void pack_tile(const Block& block, std::int64_t first, std::int64_t end, const Scratch& own) const;
    // Where values are packed: their rounded part or the rest, a panel, from a key of the tile on.
    [[nodiscard]] std::byte* values(const Scratch& own, std::int64_t part, std::int64_t panel,
                                    std::int64_t key) const;
    void pack_queries(const Block& block, const Scratch& own) const;
    void attend(const Block& block, std::int64_t member, std::int64_t strip, std::int64_t tile,
                const Scratch& own) const;
    void finish(const Block& block, const Scratch& own) const;

    const Kernel& kernel_;
    bool split_; // operands into two parts
    AttentionOperands operands_;
    std::byte* work_;
    int threads_;

    std::int64_t group_;        // query heads that share keys
    std::int64_t strips_;       // of tokens, for one head
    std::int64_t block_strips_; // strips in a task, at most
    std::int64_t blocks_;
    std::int64_t tiles_;        // of keys
    std::int64_t key_depth_;    // key_size as packed
    std::int64_t value_panels_; // value_size as packed
};

} // namespace twofold
