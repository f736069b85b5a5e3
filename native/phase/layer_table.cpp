// Exchange of the library's private layer vector.
#include "phase/layer_table.h"

#include "error.h"

#include <llama-model.h>

#include <cstring>
#include <utility>

namespace twofold {
namespace {

// Block linears of dense and hybrid models that have a per-tensor scale. The graph builder would scale the
// sum of product and bias, and aborts the process rather: with a bias, the scale is kept from it.
struct WeightSlot {
    ggml_tensor* llama_layer::* weight = nullptr;
    ggml_tensor* llama_layer::* scale = nullptr;
    ggml_tensor* llama_layer::* bias = nullptr; // where it would come before the scale
};

constexpr WeightSlot weight_slots[] = {
    {&llama_layer::wq, &llama_layer::wq_s},
    {&llama_layer::wk, &llama_layer::wk_s},
    {&llama_layer::wv, &llama_layer::wv_s},
    {&llama_layer::wo, &llama_layer::wo_s},
    {&llama_layer::wqkv, &llama_layer::wqkv_s},
    {&llama_layer::wqkv_gate, &llama_layer::wqkv_gate_s},
    {&llama_layer::ffn_gate, &llama_layer::ffn_gate_s, &llama_layer::ffn_gate_b},
    {&llama_layer::ffn_up, &llama_layer::ffn_up_s, &llama_layer::ffn_up_b},
    {&llama_layer::ffn_down, &llama_layer::ffn_down_s, &llama_layer::ffn_down_b},
    {&llama_layer::ssm_in, &llama_layer::ssm_in_s},
    {&llama_layer::ssm_out, &llama_layer::ssm_out_s},
    {&llama_layer::ssm_alpha, &llama_layer::ssm_alpha_s},
    {&llama_layer::ssm_beta, &llama_layer::ssm_beta_s},
};

} // namespace

struct LayerTable::State {
    llama_model* model;
    // The table that is not in use: the prefiller's while decoding, the decoder's while prefilling.
    std::vector<llama_layer> other;
    std::vector<const ggml_tensor*> bound; // weights with a precision of their own in the model's policy
};

LayerTable::LayerTable(llama_model* model) : state_(new State{model, model->layers, {}}) {
    // A wrong structure layout would show here before it can do harm.
    const bool plausible = !model->layers.empty() &&
                           model->layers.size() >= static_cast<std::size_t>(llama_model_n_layer(model)) &&
                           model->layers.size() < 10000 && model->tok_embd &&
                           std::strcmp(model->tok_embd->name, "token_embd.weight") == 0;
    if (!plausible)
        throw Error("phase.layout", {{"architecture", std::string(model->arch_name())}});
    for (const auto& [name, tensor] : llama_internal_get_tensor_map(model)) {
        if (tensor->type == GGML_TYPE_NVFP4 || tensor->type == GGML_TYPE_MXFP4)
            model->prec_policy.prec_src1.insert_or_assign(tensor, GGML_PREC_Q8);
    }
}

LayerTable::~LayerTable() = default;

int LayerTable::block_count() const {
    return static_cast<int>(state_->model->layers.size());
}

ggml_tensor* LayerTable::decoder_tensor(const std::string& name) const {
    return const_cast<ggml_tensor*>(state_->model->get_tensor(name.c_str()));
}

std::vector<ggml_tensor*> LayerTable::decoder_tensors() const {
    std::vector<ggml_tensor*> tensors;
    for (const auto& [name, tensor] : llama_internal_get_tensor_map(state_->model))
        tensors.push_back(tensor);
    return tensors;
}

void LayerTable::bind(int block, const std::string& name, ggml_tensor* weight, ggml_tensor* scale) {
    const ggml_tensor* decoder = decoder_tensor(name);
    if (decoder && block >= 0 && block < block_count()) {
        const llama_layer& current = state_->model->layers[static_cast<std::size_t>(block)];
        for (const WeightSlot& slot : weight_slots) {
            if (current.*slot.weight != decoder)
                continue;
            llama_layer& prefill = state_->other[static_cast<std::size_t>(block)];
            prefill.*slot.weight = weight;
            prefill.*slot.scale = slot.bias && current.*slot.bias ? nullptr : scale;
            state_->model->prec_policy.prec_src1.insert_or_assign(weight, GGML_PREC_Q4);
            state_->bound.push_back(weight);
            return;
        }
    }
    throw Error("phase.no_slot",
                {{"tensor", name}, {"architecture", std::string(state_->model->arch_name())}});
}

void LayerTable::reset() {
    state_->other = state_->model->layers;
    for (const ggml_tensor* weight : state_->bound)
        state_->model->prec_policy.prec_src1.erase(weight);
    state_->bound.clear();
}

void LayerTable::exchange() noexcept {
    state_->model->layers.swap(state_->other);
}

} // namespace twofold
