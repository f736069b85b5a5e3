// Times one matrix product as the CPU backend computes it: by a kernel of ours, or by the library with its
// weights wherever it would have put them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace twofold {

struct Kernel;

class ProductBench {
  public:
    // `weights`: n x k of ggml type `type`, copied. Products have `m` columns of activations. Throws Error
    // "weights.unknown_type", "weights.wrong_size", "memory.out", "kernel.unknown".
    ProductBench(int type, std::int64_t m, std::int64_t n, std::int64_t k, const std::uint8_t* weights,
                 std::size_t bytes, int threads);
    ~ProductBench();
    ProductBench(const ProductBench&) = delete;
    ProductBench& operator=(const ProductBench&) = delete;

    // Kinds of memory that the library has kernels for, its ordinary one first.
    [[nodiscard]] std::vector<std::string> buffers() const;

    // Seconds that a product took, by the library from the weights in buffers()[buffer].
    double library(std::size_t buffer);
    // Seconds that it took by a kernel of ours (see usable_kernels()); it throws "kernel.unknown" when the
    // type has none.
    // `four_bits`: with activations rounded to them, for NVFP4.
    double ours(const std::string& kernel, bool four_bits = false);
    // Operations a second of that kernel's instruction on registers alone, on one thread.
    static double peak(const std::string& kernel);

    // The last product's results, m rows of n.
    [[nodiscard]] std::vector<float> results() const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

} // namespace twofold
