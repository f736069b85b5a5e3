// Binding of the prefiller's weights, and their part in a prompt; prefill_placing.cpp finds them memory.
#include "phase/prefill_weights.h"

#include "error.h"

#include <ggml-backend.h>
#include <ggml.h>

#include <algorithm>

namespace twofold {
namespace {

constexpr std::size_t scale_stride = 256; // suits every device's alignment

} // namespace

void PrefillWeights::FreeContext::operator()(ggml_context* context) const noexcept {
    ggml_free(context);
}

PrefillWeights::PrefillWeights(LayerTable& table, const PrefillerFiles& files, const PrefillPlan& plan)
    : table_(table), files_(files), plan_(plan) {
    const std::size_t count = files_.tensors.size();
    context_.reset(ggml_init({ggml_tensor_overhead() * 2 * (count + 1), nullptr, true}));
    if (!context_)
        throw Error("memory.out", {{"wanted", static_cast<std::int64_t>(ggml_tensor_overhead() * 2 * count)},
                                   {"device", std::string()}});
    // A block is computed where most of the decoder's block is, which is one place.
    std::map<int, ggml_backend_device*> devices;
    for (const PrefillerTensor& tensor : files_.tensors) {
        const ggml_tensor* decoder = table.decoder_tensor(tensor.name);
        ggml_backend_device*& device = devices[tensor.block];
        if (decoder && !device)
            device = device_of(decoder);
    }
    for (const PrefillerTensor& tensor : files_.tensors) {
        Buffer& scales = scales_[devices[tensor.block]];
        if (!scales)
            scales =
                allocate_weights(devices[tensor.block] ? ggml_backend_dev_buffer_type(devices[tensor.block])
                                                       : ggml_backend_cpu_buffer_type(),
                                 (count + 1) * scale_stride);
        bind_weight(tensor, devices[tensor.block]);
    }
    for (const auto& [device, scales] : scales_) {
        if (device)
            memory_.devices.emplace_back(ggml_backend_dev_name(device));
    }
}

PrefillWeights::~PrefillWeights() {
    stop();
}

void PrefillWeights::bind_weight(const PrefillerTensor& tensor, ggml_backend_device* device) {
    ggml_tensor* decoder = table_.decoder_tensor(tensor.name);
    if (!decoder)
        throw Error("phase.unknown_tensor", {{"tensor", tensor.name}});
    const bool same_shape = decoder->ne[0] == tensor.columns && decoder->ne[1] == tensor.rows &&
                            decoder->ne[2] == 1 && decoder->ne[3] == 1;
    if (!same_shape)
        throw Error("phase.shape", {{"tensor", tensor.name},
                                    {"wanted_columns", decoder->ne[0]},
                                    {"wanted_rows", decoder->ne[1]},
                                    {"columns", tensor.columns},
                                    {"rows", tensor.rows}});
    ggml_backend_buffer* scales = scales_[device].get();
    auto* base = static_cast<std::byte*>(ggml_backend_buffer_get_base(scales));

    ggml_tensor* weight = ggml_new_tensor_2d(context_.get(), GGML_TYPE_NVFP4, tensor.columns, tensor.rows);
    ggml_set_name(weight, ("prefill." + tensor.name).c_str());
    // A valid address until allocate(), so that a graph can be built and read before; devices may check that
    // a tensor ends within its buffer, even if it is not computed.
    weight->buffer = device ? decoder->buffer : scales;
    weight->data = ggml_backend_buffer_get_base(weight->buffer);
    if (ggml_nbytes(weight) != tensor.bytes.size)
        throw Error("phase.shape", {{"tensor", tensor.name},
                                    {"wanted_bytes", static_cast<std::int64_t>(ggml_nbytes(weight))},
                                    {"bytes", static_cast<std::int64_t>(tensor.bytes.size)}});

    ggml_tensor* scale = ggml_new_tensor_1d(context_.get(), GGML_TYPE_F32, 1);
    ggml_set_name(scale, ("prefill." + tensor.name + ".scale").c_str());
    scale->buffer = scales;
    scale->data = base + (bound_.size() + 1) * scale_stride;
    ggml_backend_tensor_set(scale, &tensor.scale, 0, sizeof tensor.scale);

    table_.bind(tensor.block, tensor.name, weight, scale);
    bound_.push_back({tensor.name, tensor.block, weight, scale, decoder});
    if (device)
        require_product(bound_.back(), device);
}

// The library aborts the process rather than compute such a product elsewhere.
void PrefillWeights::require_product(const BoundWeight& weight, ggml_backend_device* device) const {
    const std::unique_ptr<ggml_context, FreeContext> context(
        ggml_init({ggml_tensor_overhead() * 2, nullptr, true}));
    ggml_tensor* tokens = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, weight.weight->ne[0], 64);
    const ggml_tensor* product = ggml_mul_mat(context.get(), weight.weight, tokens);
    if (!ggml_backend_dev_supports_op(device, product))
        throw Error("device.unsupported",
                    {{"device", std::string(ggml_backend_dev_name(device))}, {"tensor", weight.name}});
}

void PrefillWeights::group_blocks(const std::vector<WeightUse>& uses) {
    std::map<int, PassBlock> by_block;
    for (std::size_t i = 0; i < bound_.size(); ++i) {
        if (uses[i].products == 0)
            continue;
        memory_.four_bit_weights += uses[i].four_bits ? 1 : 0;
        if (!uses[i].scaled)
            unscaled_[bound_[i].weight] = files_.tensors[i].scale;
        PassBlock& block = by_block[bound_[i].block];
        block.block = bound_[i].block;
        block.device = device_of(bound_[i].weight);
        block.weights.push_back(i);
        block.ranges.push_back(files_.tensors[i].bytes);
    }
    for (auto& [number, block] : by_block) {
        for (const std::size_t weight : block.weights)
            counter_.add(bound_[weight].weight, pass_.size(), uses[weight].products);
        pass_.push_back(std::move(block));
    }
}

void PrefillWeights::point(const PassBlock& block, const std::vector<Spot>& spots) {
    for (std::size_t i = 0; i < block.weights.size(); ++i) {
        bound_[block.weights[i]].weight->buffer = spots[i].buffer;
        bound_[block.weights[i]].weight->data = spots[i].data;
    }
}

void PrefillWeights::start(int passes) {
    if (!streamer_)
        return;
    if (carve_out_)
        carve_out_->overwrite();
    streamer_->begin(static_cast<std::size_t>(passes));
}

void PrefillWeights::start_pass() {
    counter_.reset();
}

bool PrefillWeights::before_node(const ggml_tensor* node) {
    const auto step = counter_.see(node);
    if (!step)
        return false;
    const PassBlock& block = pass_[step->block];
    if (step->first && block.streamed()) {
        slot_ = streamer_->acquire(block.stream_index);
        point(block, block.spots[slot_]);
        if (uploader_)
            uploader_->before_compute(block.stream_index, slot_);
        if (plan_.hooks.on_compute)
            plan_.hooks.on_compute(block.block);
    }
    ending_ = step->last ? std::optional(step->block) : std::nullopt;
    return step->last || unscaled_.contains(weight_of(node->src[0]));
}

bool PrefillWeights::after_node(ggml_tensor* node) {
    if (const auto found = unscaled_.find(weight_of(node->src[0])); found != unscaled_.end())
        scaler_->scale(node, found->second);
    if (!ending_)
        return false;
    end_block(pass_[*ending_]);
    return true;
}

void PrefillWeights::end_block(const PassBlock& block) {
    if (!block.streamed())
        return;
    if (uploader_)
        uploader_->after_compute(block.stream_index, slot_);
    streamer_->release(block.stream_index);
    if (!carve_out_)
        return;
    for (std::size_t slot = 0; slot < memory_.slots; ++slot) {
        if (streamer_->slot_retired(slot))
            carve_out_->retire(slot);
    }
}

void PrefillWeights::check_unchanged() const {
    if (streamer_)
        reader_->check_unchanged();
}

void PrefillWeights::finish() {
    if (streamer_)
        streamer_->finish();
}

void PrefillWeights::stop() noexcept {
    if (!streamer_)
        return;
    streamer_->cancel();
    if (carve_out_) {
        for (std::size_t slot = 0; slot < memory_.slots; ++slot)
            carve_out_->retire(slot);
    }
}

void PrefillWeights::cancel() noexcept {
    if (streamer_)
        streamer_->cancel();
}

void PrefillWeights::restore() {
    if (carve_out_)
        carve_out_->restore();
}

bool PrefillWeights::decoder_intact() const {
    return !carve_out_ || carve_out_->intact();
}

double PrefillWeights::restore_seconds() const {
    return carve_out_ ? carve_out_->restore_seconds() : 0;
}

StreamStats PrefillWeights::stream_stats() const {
    return streamer_ ? streamer_->stats() : StreamStats{};
}

std::vector<StreamEvent> PrefillWeights::events() const {
    std::vector<StreamEvent> events = streamer_ ? streamer_->events() : std::vector<StreamEvent>{};
    for (StreamEvent& event : events)
        event.block = static_cast<std::size_t>(streamed_[event.block]->block);
    return events;
}

} // namespace twofold
