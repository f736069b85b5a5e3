// A matrix product in cache-sized blocks, cut into tasks that threads take one after the other.
//
//     Product product(kernel, weights, rows, results, work, threads);  // the same on each thread
//     product.pack(thread);          // each thread once
//     ... all threads meet ...
//     product.run(task, thread);     // each task once, on any thread, between begin() and end()
//
// A result depends on the operands and their shapes alone: not on threads, addresses or other rows.
#pragma once

#include "kernels/kernel.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace twofold {

// Rows of quantised weights.
struct WeightRows {
    const std::uint8_t* data = nullptr;
    std::size_t stride = 0;         // bytes from row to row
    std::int64_t count = 0;         // N
    std::int64_t k = 0;             // weights in a row
    std::int64_t block_weights = 1; // what the format stores together, in block_bytes
    std::size_t block_bytes = 0;
    bool nvfp4 = false; // decoded by the kernel itself where it can
    void (*to_float)(const void* blocks, float* weights, std::int64_t count) = nullptr;
};

// What activations are rounded to. `a4` is for NVFP4 weights: see activations_a4.h.
enum class Activations { bf16, a4 };

// FP32 rows along up to three dimensions.
template <typename Byte> struct FloatRows {
    Byte* data = nullptr;
    std::array<std::int64_t, 3> count{0, 1, 1};
    std::array<std::size_t, 3> stride{}; // bytes

    [[nodiscard]] std::int64_t size() const { return count[0] * count[1] * count[2]; }
    [[nodiscard]] Byte* row(std::int64_t index) const {
        const std::int64_t inner = index % count[0];
        const std::int64_t outer = index / count[0];
        return data + static_cast<std::size_t>(inner) * stride[0] +
               static_cast<std::size_t>(outer % count[1]) * stride[1] +
               static_cast<std::size_t>(outer / count[1]) * stride[2];
    }
};

class Product {
  public:
    // results[m][n] = sum over k of rows[m][k] * weights[n][k]. `work` has work_size() bytes, any alignment.
    Product(const Kernel& kernel, const WeightRows& weights, const FloatRows<const std::byte>& rows,
            const FloatRows<std::byte>& results, void* work, int threads,
            Activations activations = Activations::bf16);

    // Bytes that a product of m rows, n columns and depth k needs.
    static std::size_t work_size(const Kernel& kernel, std::int64_t m, std::int64_t n, std::int64_t k,
                                 int threads);

    void pack(int thread) const;
    [[nodiscard]] std::int64_t task_count() const { return row_parts_ * panel_groups_; }
    void begin() const;
    void run(std::int64_t task, int thread) const;
    void end() const;

  private:
    struct Scratch;
    [[nodiscard]] Scratch scratch(int thread) const;
    [[nodiscard]] std::byte* packed_rows(std::int64_t strip, std::int64_t k) const;
    void pack_weights(std::int64_t panel, std::int64_t k, std::int64_t count, std::byte* to,
                      float* converted) const;
    [[nodiscard]] float* token_scales() const;
    [[nodiscard]] float* place(std::int64_t strip, std::int64_t panel) const;
    void store(std::int64_t strip, std::int64_t panel, const float* tile) const;

    const Kernel& kernel_;
    WeightRows weights_;
    FloatRows<const std::byte> rows_;
    FloatRows<std::byte> results_;
    std::byte* work_;
    int threads_;
    Activations activations_;

    std::int64_t m_;
    std::int64_t depth_step_; // K of a block
    std::int64_t strips_;
    std::int64_t panels_;
    std::int64_t block_strips_; // strips in a block of rows, at most
    std::int64_t part_blocks_;  // blocks of rows in a task, at most
    std::int64_t row_parts_;
    std::int64_t group_panels_; // panels in a task, at most
    std::int64_t panel_groups_;
};

} // namespace twofold
