// Follows a graph's evaluation block by block, by counting the uses of each block's weights.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

struct ggml_tensor;

namespace twofold {

class BlockCounter {
  public:
    // `weight` is multiplied `uses` times in a pass and belongs to the block at `index` in pass order.
    void add(const ggml_tensor* weight, std::size_t index, int uses);
    [[nodiscard]] std::size_t block_count() const { return expected_.size(); }

    // Starts a pass.
    void reset();

    struct Step {
        std::size_t block;
        bool first; // the block's first use in this pass
        bool last;  // its last one
    };
    // What `node` means for the blocks: nothing for most nodes.
    std::optional<Step> see(const ggml_tensor* node);

    // True when every block has been used as often as announced.
    [[nodiscard]] bool complete() const { return finished_ == expected_.size(); }

  private:
    std::unordered_map<const ggml_tensor*, std::size_t> index_;
    std::vector<int> expected_;
    std::vector<int> seen_;
    std::size_t finished_ = 0;
};

} // namespace twofold
