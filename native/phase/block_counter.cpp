// Counts weight uses in a graph's nodes.
#include "phase/block_counter.h"

#include "phase/graph_scan.h"

#include <ggml.h>

#include <algorithm>

namespace twofold {

void BlockCounter::add(const ggml_tensor* weight, std::size_t index, int uses) {
    if (uses <= 0)
        return;
    index_[weight] = index;
    if (expected_.size() <= index)
        expected_.resize(index + 1, 0);
    expected_[index] += uses;
}

void BlockCounter::reset() {
    seen_.assign(expected_.size(), 0);
    finished_ = 0;
}

std::optional<BlockCounter::Step> BlockCounter::see(const ggml_tensor* node) {
    if (node->op != GGML_OP_MUL_MAT)
        return std::nullopt;
    const auto found = index_.find(weight_of(node->src[0]));
    if (found == index_.end())
        return std::nullopt;
    const std::size_t block = found->second;
    const int seen = ++seen_[block];
    const bool last = seen == expected_[block];
    if (last)
        ++finished_;
    return Step{.block = block, .first = seen == 1, .last = last};
}

} // namespace twofold
