// Reads a prefill graph before it is trusted: which weights it uses, in which order, with which scales.
//
// Some architectures of the library read a block's weights out of order, through other pointers, or scale
// something else than the product. Such a graph would give fluent nonsense; here it is refused.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

struct ggml_cgraph;
struct ggml_tensor;

namespace twofold {

// One weight of the prefiller, as bound in the prefill table.
struct BoundWeight {
    std::string name;
    int block = 0;
    ggml_tensor* weight = nullptr;
    ggml_tensor* scale = nullptr;
    ggml_tensor* decoder = nullptr;
};

// What the graph does with one weight.
struct WeightUse {
    int products = 0;       // multiplications by it; 0 when it is never read
    bool scaled = false;    // each product is multiplied by the weight's scale
    bool four_bits = false; // each product may take 4-bit activations, where a device has them
};

// In the order of `weights`. Throws Error "phase.decoder_weight_used", "phase.scale_not_applied" (a scale is
// used, but not on each product), "phase.not_a_product" or "phase.block_order", with the tensor's name.
std::vector<WeightUse> scan_prefill_graph(ggml_cgraph* graph, std::span<const BoundWeight> weights);

// How often the graph multiplies by each block's own weights; for watching a prompt read by the decoder.
struct BlockUse {
    const ggml_tensor* weight;
    int block;
    int uses;
    bool eight_bits; // each use takes activations of 8 bits at least, whatever a device would choose
};
std::vector<BlockUse> scan_decoder_graph(ggml_cgraph* graph);

// What attends in a block: heads of queries and of keys, values in one of each, ggml's type of the cache.
struct AttentionHeads {
    std::int64_t heads;
    std::int64_t key_heads;
    std::int64_t key_size;
    std::int64_t value_size;
    int type;
};
// Of the graph's first fused attention; nothing where it has none.
std::optional<AttentionHeads> scan_attention(ggml_cgraph* graph);

// The weight behind a view, or the tensor itself.
const ggml_tensor* weight_of(const ggml_tensor* source) noexcept;

} // namespace twofold
