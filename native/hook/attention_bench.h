// Times the attention of a prompt's last tokens over a cache, as the CPU backend computes it: by a kernel of
// ours, or by the library.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace twofold {

struct AttentionShape {
    std::int64_t tokens = 0; // read in this pass
    std::int64_t cached = 0; // theirs among them
    std::int64_t heads = 0;
    std::int64_t key_heads = 0;
    std::int64_t key_size = 0;
    std::int64_t value_size = 0;
    int type = 0; // ggml's, of keys and values
};

class AttentionBench {
  public:
    // Random operands, each token seeing itself and those before it. Throws Error "attention.wrong_shape",
    // "memory.out".
    AttentionBench(const AttentionShape& shape, int threads);
    ~AttentionBench();
    AttentionBench(const AttentionBench&) = delete;
    AttentionBench& operator=(const AttentionBench&) = delete;

    // Seconds that it took.
    double library();
    // By a kernel of ours (see usable_kernels()). Throws Error "kernel.unknown", "kernel.unused".
    double ours(const std::string& kernel);
    // What a query and a key, or a weight and a value, multiplied for each number that was not hidden.
    [[nodiscard]] double operations() const;
    // The last results, [token][head][value_size].
    [[nodiscard]] std::vector<float> results() const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

} // namespace twofold
