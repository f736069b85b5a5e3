// Walks the nodes of a graph that was built but not computed.
#include "phase/graph_scan.h"

#include "error.h"

#include <ggml.h>

#include <charconv>
#include <cstring>
#include <unordered_map>

namespace twofold {

const ggml_tensor* weight_of(const ggml_tensor* source) noexcept {
    return source->view_src ? source->view_src : source;
}

namespace {

// What ggml_prec_set_src() has set for a product's activations; the library has no function to read it.
ggml_prec activation_precision(const ggml_tensor* product) {
    return static_cast<ggml_prec>(product->op_params[3]);
}

} // namespace

std::vector<WeightUse> scan_prefill_graph(ggml_cgraph* graph, std::span<const BoundWeight> weights) {
    std::unordered_map<const ggml_tensor*, std::size_t> by_weight;
    std::unordered_map<const ggml_tensor*, std::size_t> by_scale;
    std::unordered_map<const ggml_tensor*, std::size_t> by_decoder;
    for (std::size_t i = 0; i < weights.size(); ++i) {
        by_weight[weights[i].weight] = i;
        by_scale[weights[i].scale] = i;
        by_decoder[weights[i].decoder] = i;
    }

    std::vector<WeightUse> uses(weights.size());
    std::vector<int> scaled(weights.size(), 0);      // products that a scale follows
    std::vector<int> scale_reads(weights.size(), 0); // reads of the scale by any node
    std::unordered_map<const ggml_tensor*, std::size_t> products;
    int last_block = -1;
    for (int n = 0; n < ggml_graph_n_nodes(graph); ++n) {
        const ggml_tensor* node = ggml_graph_node(graph, n);
        for (int s = 0; s < GGML_MAX_SRC; ++s) {
            const ggml_tensor* source = node->src[s];
            if (!source)
                continue;
            const ggml_tensor* base = weight_of(source);
            if (const auto found = by_decoder.find(base); found != by_decoder.end())
                throw Error("phase.decoder_weight_used", {{"tensor", weights[found->second].name}});
            if (const auto found = by_weight.find(base); found != by_weight.end()) {
                const BoundWeight& weight = weights[found->second];
                if (node->op != GGML_OP_MUL_MAT || s != 0)
                    throw Error("phase.not_a_product", {{"tensor", weight.name}});
                if (weight.block < last_block)
                    throw Error("phase.block_order", {{"tensor", weight.name}});
                last_block = weight.block;
                WeightUse& use = uses[found->second];
                use.four_bits =
                    (use.products == 0 || use.four_bits) && activation_precision(node) == GGML_PREC_Q4;
                ++use.products;
                products[node] = found->second;
            }
            const auto scale = by_scale.find(base);
            if (scale == by_scale.end())
                continue;
            ++scale_reads[scale->second];
            const ggml_tensor* product = node->src[s == 0 ? 1 : 0];
            const auto found = product ? products.find(weight_of(product)) : products.end();
            if (node->op == GGML_OP_MUL && found != products.end() && found->second == scale->second)
                ++scaled[scale->second];
        }
    }
    for (std::size_t i = 0; i < weights.size(); ++i) {
        uses[i].scaled = scale_reads[i] > 0;
        if (uses[i].scaled && (scaled[i] != uses[i].products || scale_reads[i] != scaled[i]))
            throw Error("phase.scale_not_applied", {{"tensor", weights[i].name}});
    }
    return uses;
}

std::vector<BlockUse> scan_decoder_graph(ggml_cgraph* graph) {
    std::vector<BlockUse> found;
    std::unordered_map<const ggml_tensor*, std::size_t> index;
    for (int n = 0; n < ggml_graph_n_nodes(graph); ++n) {
        const ggml_tensor* node = ggml_graph_node(graph, n);
        if (node->op != GGML_OP_MUL_MAT)
            continue;
        const ggml_tensor* weight = weight_of(node->src[0]);
        if (std::strncmp(weight->name, "blk.", 4) != 0)
            continue;
        int block = -1;
        const char* digits = weight->name + 4;
        if (std::from_chars(digits, digits + std::strlen(digits), block).ec != std::errc{})
            continue;
        const auto [at, fresh] = index.try_emplace(weight, found.size());
        if (fresh)
            found.push_back({weight, block, 0, true});
        BlockUse& use = found[at->second];
        use.eight_bits = use.eight_bits && activation_precision(node) == GGML_PREC_Q8;
        ++use.uses;
    }
    return found;
}

std::optional<AttentionHeads> scan_attention(ggml_cgraph* graph) {
    for (int n = 0; n < ggml_graph_n_nodes(graph); ++n) {
        const ggml_tensor* node = ggml_graph_node(graph, n);
        if (node->op == GGML_OP_FLASH_ATTN_EXT)
            return AttentionHeads{.heads = node->src[0]->ne[2],
                                  .key_heads = node->src[1]->ne[2],
                                  .key_size = node->src[1]->ne[0],
                                  .value_size = node->src[2]->ne[0],
                                  .type = node->src[1]->type};
    }
    return std::nullopt;
}

} // namespace twofold
