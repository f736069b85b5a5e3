// Binding, placing and streaming of the prefiller's weights.
#include "phase/prefill_weights.h"

#include "disk/huge_pages.h"
#include "error.h"

#include <ggml-backend.h>
#include <ggml.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <set>

namespace twofold {
namespace {

constexpr std::size_t scale_stride = 64;

std::uint64_t total_size(const std::vector<Region>& regions) {
    return std::accumulate(regions.begin(), regions.end(), std::uint64_t{0},
                           [](std::uint64_t sum, const Region& region) { return sum + region.size; });
}

std::vector<std::filesystem::path> to_paths(const std::vector<std::string>& names) {
    return {names.begin(), names.end()};
}

// Whole pages inside a buffer that was allocated with a page to spare.
Region pages_of(ggml_backend_buffer* buffer, std::size_t size) {
    const auto base = reinterpret_cast<std::uintptr_t>(ggml_backend_buffer_get_base(buffer));
    const std::uintptr_t first = (base + slot_alignment - 1) / slot_alignment * slot_alignment;
    return {reinterpret_cast<std::byte*>(first), size};
}

std::vector<Segment> segments_of(const Placement& placement) {
    std::vector<Segment> segments;
    for (const PlacedRead& read : placement.reads)
        segments.push_back({read.from.file, read.from.offset, read.from.size, read.data});
    return segments;
}

} // namespace

void PrefillWeights::FreeContext::operator()(ggml_context* context) const noexcept {
    ggml_free(context);
}
void PrefillWeights::FreeBuffer::operator()(ggml_backend_buffer* buffer) const noexcept {
    ggml_backend_buffer_free(buffer);
}

PrefillWeights::PrefillWeights(LayerTable& table, const PrefillerFiles& files, const PrefillPlan& plan)
    : table_(table), files_(files), plan_(plan) {
    const std::size_t count = files_.tensors.size();
    context_.reset(ggml_init({ggml_tensor_overhead() * 2 * (count + 1), nullptr, true}));
    scales_.reset(ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), (count + 1) * scale_stride));
    if (!context_ || !scales_)
        throw Error("memory.out", {{"wanted", static_cast<std::int64_t>(count * scale_stride)}});
    ggml_backend_buffer_set_usage(scales_.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    for (std::size_t i = 0; i < count; ++i)
        bind_weight(table, files_.tensors[i], i);
}

PrefillWeights::~PrefillWeights() {
    stop();
}

void PrefillWeights::bind_weight(LayerTable& table, const PrefillerTensor& tensor, std::size_t index) {
    ggml_tensor* decoder = table.decoder_tensor(tensor.name);
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
    auto* base = static_cast<std::byte*>(ggml_backend_buffer_get_base(scales_.get()));

    ggml_tensor* weight = ggml_new_tensor_2d(context_.get(), GGML_TYPE_NVFP4, tensor.columns, tensor.rows);
    ggml_set_name(weight, ("prefill." + tensor.name).c_str());
    // A valid address until allocate(), so that a graph can be built and read before.
    weight->buffer = scales_.get();
    weight->data = base;
    if (ggml_nbytes(weight) != tensor.bytes.size)
        throw Error("phase.shape", {{"tensor", tensor.name},
                                    {"wanted_bytes", static_cast<std::int64_t>(ggml_nbytes(weight))},
                                    {"bytes", static_cast<std::int64_t>(tensor.bytes.size)}});

    ggml_tensor* scale = ggml_new_tensor_1d(context_.get(), GGML_TYPE_F32, 1);
    ggml_set_name(scale, ("prefill." + tensor.name + ".scale").c_str());
    scale->buffer = scales_.get();
    scale->data = base + (index + 1) * scale_stride;
    std::memcpy(scale->data, &tensor.scale, sizeof tensor.scale);

    table.bind(tensor.block, tensor.name, weight, scale);
    bound_.push_back({tensor.name, tensor.block, weight, scale, decoder});
}

void PrefillWeights::allocate(const std::vector<WeightUse>& uses, ggml_backend_sched* scheduler,
                              const DecoderFiles& decoder,
                              const std::function<bool(std::uint64_t, std::uint64_t)>& progress) {
    group_blocks(uses);
    scaler_.emplace(scheduler);
    reader_ = std::make_unique<FileReader>(
        to_paths(files_.paths),
        FileReaderOptions{.in_flight = plan_.in_flight, .request_bytes = plan_.request_bytes, .read_at = {}});
    for (std::size_t file = 0; file < reader_->file_count(); ++file)
        memory_.direct = memory_.direct && reader_->direct(file);
    memory_.resident_bytes = ggml_backend_buffer_get_size(scales_.get());
    place_resident(progress);
    place_slots(decoder);
}

void PrefillWeights::group_blocks(const std::vector<WeightUse>& uses) {
    std::map<int, PassBlock> by_block;
    for (std::size_t i = 0; i < bound_.size(); ++i) {
        if (uses[i].products == 0)
            continue;
        if (!uses[i].scaled)
            unscaled_[bound_[i].weight] = files_.tensors[i].scale;
        PassBlock& block = by_block[bound_[i].block];
        block.block = bound_[i].block;
        block.weights.push_back(i);
        block.ranges.push_back(files_.tensors[i].bytes);
    }
    for (auto& [number, block] : by_block) {
        for (const std::size_t weight : block.weights)
            counter_.add(bound_[weight].weight, pass_.size(), uses[weight].products);
        pass_.push_back(std::move(block));
    }
}

bool PrefillWeights::streams(const PassBlock& block) const {
    const auto number = static_cast<std::size_t>(block.block);
    return number >= plan_.tiers.size() || plan_.tiers[number] == Tier::disk;
}

void PrefillWeights::point(const PassBlock& block, const Placement& placement) {
    for (std::size_t i = 0; i < block.weights.size(); ++i)
        bound_[block.weights[i]].weight->data = placement.tensors[i];
}

void PrefillWeights::place_resident(const std::function<bool(std::uint64_t, std::uint64_t)>& progress) {
    std::vector<const PassBlock*> resident;
    std::size_t size = 0;
    std::uint64_t wanted = 0;
    for (const PassBlock& block : pass_) {
        if (streams(block))
            continue;
        resident.push_back(&block);
        size += placed_size(block.ranges);
        for (const FileRange& range : block.ranges)
            wanted += range.size;
    }
    memory_.resident_blocks = static_cast<std::uint32_t>(resident.size());
    memory_.streamed_blocks = static_cast<std::uint32_t>(pass_.size() - resident.size());
    if (resident.empty())
        return;

    resident_.reset(ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), size + slot_alignment));
    if (!resident_)
        throw Error("memory.out", {{"wanted", static_cast<std::int64_t>(size)}});
    ggml_backend_buffer_set_usage(resident_.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    memory_.resident_bytes += size;

    Region free = pages_of(resident_.get(), size);
    std::uint64_t done = 0;
    for (const PassBlock* block : resident) {
        const std::size_t taken = placed_size(block->ranges);
        const auto placement = place(block->ranges, std::vector{Region{free.begin, taken}});
        free = {free.begin + taken, free.size - taken};
        reader_->wait(reader_->submit(segments_of(*placement)));
        for (const std::size_t weight : block->weights)
            bound_[weight].weight->buffer = resident_.get();
        point(*block, *placement);
        for (const FileRange& range : block->ranges)
            done += range.size;
        if (progress && !progress(done, wanted))
            throw Error("cancelled");
    }
    reader_->check_unchanged();
}

void PrefillWeights::place_slots(const DecoderFiles& decoder) {
    std::vector<std::vector<FileRange>> blocks;
    for (PassBlock& block : pass_) {
        if (!streams(block))
            continue;
        block.stream_index = blocks.size();
        blocks.push_back(block.ranges);
    }
    if (blocks.empty())
        return;
    // More slots than blocks would never be used.
    const std::size_t slot_count =
        std::clamp<std::size_t>(plan_.slots, 1, std::max<std::size_t>(blocks.size(), 1));

    std::vector<Region> pool;
    if (plan_.carve_out && !decoder.paths.empty()) {
        std::map<std::string, FileRange> on_disk;
        for (const DecoderTensor& tensor : decoder.tensors)
            on_disk[tensor.name] = tensor.bytes;
        std::vector<IdleTensor> idle;
        for (const BoundWeight& weight : bound_) {
            const auto found = on_disk.find(weight.name);
            if (found != on_disk.end() && found->second.size == ggml_nbytes(weight.decoder))
                idle.push_back({weight.decoder, found->second});
        }
        carve_out_ = std::make_unique<CarveOut>(to_paths(decoder.paths), decoder.loaded, std::move(idle),
                                                table_.decoder_tensors());
        pool = carve_out_->pool();
        // Large regions first: fewer pieces, fewer decoder weights to restore.
        std::ranges::sort(pool, [](const Region& a, const Region& b) { return a.size > b.size; });
    }

    std::size_t slot_size = 0;
    for (const auto& ranges : blocks)
        slot_size = std::max(slot_size, placed_size(ranges));
    std::vector<std::vector<Region>> slots;
    std::vector<std::vector<Region>> lent;
    for (std::size_t s = 0; s < slot_count; ++s) {
        auto taken = take_slot(blocks, pool);
        if (taken) {
            lent.push_back(*taken);
        } else {
            Buffer buffer(
                ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), slot_size + slot_alignment));
            if (!buffer)
                throw Error("memory.out", {{"wanted", static_cast<std::int64_t>(slot_size)}});
            taken = std::vector{pages_of(buffer.get(), slot_size)};
            lent.emplace_back();
            memory_.allocated_slot_bytes += slot_size;
            slot_buffers_.push_back(std::move(buffer));
        }
        memory_.slot_bytes += total_size(*taken);
        for (const Region& region : *taken)
            prefer_huge_pages(region.begin, region.size);
        slots.push_back(std::move(*taken));
    }
    if (carve_out_) {
        carve_out_->lend(lent);
        memory_.lent_bytes = carve_out_->lent_bytes();
        if (!carve_out_->lent())
            carve_out_.reset();
    }
    memory_.slots = static_cast<std::uint32_t>(slot_count);

    slot_view_.reset(ggml_backend_cpu_buffer_from_ptr(slots[0][0].begin, slots[0][0].size));
    ggml_backend_buffer_set_usage(slot_view_.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    for (PassBlock& block : pass_) {
        if (!streams(block))
            continue;
        for (const std::vector<Region>& regions : slots)
            block.placements.push_back(*place(block.ranges, regions));
        for (const std::size_t weight : block.weights)
            bound_[weight].weight->buffer = slot_view_.get();
        point(block, block.placements[0]);
        streamed_.push_back(&block);
    }
    streamer_ = std::make_unique<BlockStreamer>(*reader_, streamed_.size(), slot_count,
                                                [this](std::size_t block, std::size_t slot) {
                                                    return segments_of(streamed_[block]->placements[slot]);
                                                });
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
        const std::size_t slot = streamer_->acquire(block.stream_index);
        point(block, block.placements[slot]);
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

} // namespace twofold
