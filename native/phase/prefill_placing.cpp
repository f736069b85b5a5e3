// Finds memory for the prefiller's weights: resident blocks, pinned host memory, slots and staging buffers.
#include "phase/prefill_weights.h"

#include "disk/huge_pages.h"
#include "error.h"

#include <ggml-backend.h>
#include <ggml.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace twofold {
namespace {

std::uint64_t total_size(const std::vector<Region>& regions) {
    return std::accumulate(regions.begin(), regions.end(), std::uint64_t{0},
                           [](std::uint64_t sum, const Region& region) { return sum + region.size; });
}

std::vector<std::filesystem::path> to_paths(const std::vector<std::string>& names) {
    return {names.begin(), names.end()};
}

std::size_t page_up(std::size_t size) {
    return (size + slot_alignment - 1) / slot_alignment * slot_alignment;
}

// Whole pages inside a buffer of the host that was allocated with a page to spare.
Region pages_of(ggml_backend_buffer* buffer, std::size_t size) {
    const auto base = reinterpret_cast<std::uintptr_t>(ggml_backend_buffer_get_base(buffer));
    return {reinterpret_cast<std::byte*>(page_up(base)), size};
}

std::vector<Segment> segments_of(const Placement& placement) {
    std::vector<Segment> segments;
    for (const PlacedRead& read : placement.reads)
        segments.push_back({read.from.file, read.from.offset, read.from.size, read.data});
    return segments;
}

std::uint64_t bytes_of(const std::vector<FileRange>& ranges) {
    return std::accumulate(ranges.begin(), ranges.end(), std::uint64_t{0},
                           [](std::uint64_t sum, const FileRange& range) { return sum + range.size; });
}

} // namespace

void PrefillWeights::allocate(const std::vector<WeightUse>& uses, ggml_backend_sched* scheduler,
                              const DecoderFiles& decoder, const Progress& progress) {
    group_blocks(uses);
    scaler_.emplace(scheduler);
    reader_ = std::make_unique<FileReader>(
        to_paths(files_.paths),
        FileReaderOptions{.in_flight = plan_.in_flight, .request_bytes = plan_.request_bytes, .read_at = {}});
    for (std::size_t file = 0; file < reader_->file_count(); ++file)
        memory_.direct = memory_.direct && reader_->direct(file);
    for (const auto& [device, scales] : scales_)
        memory_.resident_bytes += ggml_backend_buffer_get_size(scales.get());
    place_resident(progress);
    place_slots(decoder, scheduler);
}

Tier PrefillWeights::tier(const PassBlock& block) const {
    const auto number = static_cast<std::size_t>(block.block);
    const Tier tier = number < plan_.tiers.size() ? plan_.tiers[number] : Tier::disk;
    return tier == Tier::host && !block.device ? Tier::device : tier;
}

std::vector<std::byte*> PrefillWeights::read_weights(const PassBlock& block, const Region& memory) {
    const auto placement = place(block.ranges, std::vector{memory});
    reader_->wait(reader_->submit(segments_of(*placement)));
    return placement->tensors;
}

// Host memory that `device` copies from fastest.
Region PrefillWeights::allocate_host(ggml_backend_device* device, std::size_t size, Buffer& buffer) {
    ggml_backend_buffer_type_t type = ggml_backend_dev_host_buffer_type(device);
    buffer = allocate_weights(type ? type : ggml_backend_cpu_buffer_type(), size + slot_alignment);
    memory_.pinned = memory_.pinned && type && ggml_backend_buffer_get_type(buffer.get()) == type;
    return pages_of(buffer.get(), size);
}

void PrefillWeights::place_resident(const Progress& progress) {
    std::size_t host_size = 0;
    std::uint64_t wanted = 0;
    for (const PassBlock& block : pass_) {
        if (tier(block) == Tier::disk)
            continue;
        wanted += bytes_of(block.ranges);
        host_size += block.device ? 0 : placed_size(block.ranges);
    }
    if (wanted == 0)
        return;
    Region free;
    if (host_size > 0) {
        resident_ = allocate_weights(ggml_backend_cpu_buffer_type(), host_size + slot_alignment);
        memory_.resident_bytes += host_size;
        free = pages_of(resident_.get(), host_size);
    }
    std::uint64_t done = 0;
    for (PassBlock& block : pass_) {
        if (tier(block) == Tier::disk)
            continue;
        if (block.device && tier(block) == Tier::host) {
            place_pinned(block);
        } else if (block.device) {
            place_on_device(block);
        } else {
            const std::size_t taken = placed_size(block.ranges);
            std::vector<Spot> spots;
            for (std::byte* data : read_weights(block, {free.begin, taken}))
                spots.push_back({resident_.get(), data});
            free = {free.begin + taken, free.size - taken};
            point(block, spots);
        }
        done += bytes_of(block.ranges);
        if (progress && !progress(done, wanted))
            throw Error("cancelled");
    }
    reader_->check_unchanged();
}

void PrefillWeights::place_on_device(PassBlock& block) {
    ggml_backend_buffer_type_t type = ggml_backend_dev_buffer_type(block.device);
    const std::size_t alignment = ggml_backend_buft_get_alignment(type);
    const auto aligned = [&](std::size_t size) { return (size + alignment - 1) / alignment * alignment; };
    std::size_t size = 0;
    for (const std::size_t weight : block.weights)
        size += aligned(allocated_size(bound_[weight].weight));
    device_buffers_.push_back(allocate_weights(type, size));
    ggml_backend_buffer* buffer = device_buffers_.back().get();
    memory_.resident_bytes += size;

    auto* next = static_cast<std::byte*>(ggml_backend_buffer_get_base(buffer));
    std::vector<Spot> spots;
    for (const std::size_t weight : block.weights) {
        spots.push_back({buffer, next});
        next += aligned(allocated_size(bound_[weight].weight));
    }
    point(block, spots);
    Buffer passing;
    const std::vector<std::byte*> bytes =
        read_weights(block, allocate_host(block.device, placed_size(block.ranges), passing));
    for (std::size_t i = 0; i < block.weights.size(); ++i) {
        ggml_tensor* weight = bound_[block.weights[i]].weight;
        ggml_backend_tensor_set(weight, bytes[i], 0, block.ranges[i].size);
        clear_padding(weight);
    }
}

void PrefillWeights::place_pinned(PassBlock& block) {
    const std::size_t size = placed_size(block.ranges);
    memory_.host_bytes += size;
    for (const std::byte* source : read_weights(block, allocate_host(block.device, size, block.pinned)))
        block.sources.push_back(source);
}

void PrefillWeights::place_slots(const DecoderFiles& decoder, ggml_backend_sched* scheduler) {
    std::set<ggml_backend_device*> devices;
    for (PassBlock& block : pass_) {
        if (tier(block) == Tier::device) {
            ++memory_.resident_blocks;
            continue;
        }
        memory_.host_blocks += tier(block) == Tier::host ? 1 : 0;
        block.stream_index = streamed_.size();
        streamed_.push_back(&block);
        devices.insert(block.device);
    }
    memory_.streamed_blocks = static_cast<std::uint32_t>(streamed_.size());
    if (streamed_.empty())
        return;
    // More slots than blocks would never be used.
    const std::size_t slot_count = std::clamp<std::size_t>(plan_.slots, 1, streamed_.size());
    memory_.slots = static_cast<std::uint32_t>(slot_count);
    if (plan_.carve_out && !decoder.paths.empty())
        lend_decoder(decoder);

    // Every device has its own memory for each slot: a slot's number says when, its device says where.
    std::vector<std::vector<Region>> lent(slot_count);
    std::vector<DeviceUploader::Block> uploads(streamed_.size());
    for (ggml_backend_device* device : devices) {
        const auto slots = take_slots(device, lent);
        if (device)
            place_in_device_slots(device, slots, uploads);
        else
            place_in_host_slots(slots);
    }
    if (carve_out_) {
        carve_out_->lend(lent);
        memory_.lent_bytes = carve_out_->lent_bytes();
        if (!carve_out_->lent())
            carve_out_.reset();
    }
    if (devices.size() > devices.count(nullptr)) {
        uploader_ = std::make_unique<DeviceUploader>(slot_count, plan_.asynchronous, plan_.hooks.on_upload);
        for (DeviceUploader::Block& block : uploads)
            uploader_->add(std::move(block), scheduler);
        memory_.asynchronous = uploader_->asynchronous();
    }
    streamer_ = std::make_unique<BlockStreamer>(
        *reader_, streamed_.size(), slot_count,
        [this](std::size_t block, std::size_t slot) { return streamed_[block]->reads[slot]; },
        plan_.trace_limit, uploader_.get());
}

void PrefillWeights::lend_decoder(const DecoderFiles& decoder) {
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
                                            table_.decoder_tensors(), space_);
}

// As ranges that take_slot() and place() can work with. A device's weights lie there as it wants them: each
// with its padding and, as there are no reads into it, on a page of its own.
std::vector<std::vector<FileRange>> PrefillWeights::sizes_in_slots(const ggml_backend_device* device) const {
    std::vector<std::vector<FileRange>> blocks;
    for (const PassBlock* block : streamed_) {
        if (block->device != device)
            continue;
        std::vector<FileRange>& ranges = blocks.emplace_back(block->ranges);
        std::uint64_t offset = 0;
        for (std::size_t i = 0; device && i < ranges.size(); ++i) {
            ranges[i] = {0, offset, allocated_size(bound_[block->weights[i]].weight)};
            offset += page_up(ranges[i].size) + slot_alignment; // no neighbours
        }
    }
    return blocks;
}

std::vector<std::vector<Region>> PrefillWeights::take_slots(ggml_backend_device* device,
                                                            std::vector<std::vector<Region>>& lent) {
    const auto blocks = sizes_in_slots(device);
    std::size_t slot_size = 0;
    for (const auto& ranges : blocks)
        slot_size = std::max(slot_size, placed_size(ranges));
    std::vector<Region> pool = carve_out_ ? carve_out_->pool(device) : std::vector<Region>{};
    std::vector<std::vector<Region>> slots;
    for (std::vector<Region>& of_slot : lent) {
        auto taken = take_slot(blocks, pool);
        if (taken) {
            of_slot.insert(of_slot.end(), taken->begin(), taken->end());
        } else if (device && plan_.carve_out) {
            // A device's free memory is somebody's plan already.
            throw Error("memory.no_slot", {{"wanted", static_cast<std::int64_t>(slot_size)},
                                           {"slots", static_cast<std::int64_t>(lent.size())},
                                           {"device", std::string(ggml_backend_dev_name(device))}});
        } else {
            slot_buffers_.push_back(allocate_weights(device ? ggml_backend_dev_buffer_type(device)
                                                            : ggml_backend_cpu_buffer_type(),
                                                     slot_size + slot_alignment));
            ggml_backend_buffer* buffer = slot_buffers_.back().get();
            const auto first = reinterpret_cast<std::uintptr_t>(
                space_.address(buffer, ggml_backend_buffer_get_base(buffer)));
            taken = std::vector{Region{reinterpret_cast<std::byte*>(page_up(first)), slot_size}};
            memory_.allocated_slot_bytes += slot_size;
        }
        memory_.slot_bytes += total_size(*taken);
        slots.push_back(std::move(*taken));
    }
    return slots;
}

void PrefillWeights::place_in_host_slots(const std::vector<std::vector<Region>>& slots) {
    for (const auto& regions : slots) {
        for (const Region& region : regions)
            prefer_huge_pages(region.begin, region.size);
    }
    slot_view_.reset(ggml_backend_cpu_buffer_from_ptr(slots[0][0].begin, slots[0][0].size));
    ggml_backend_buffer_set_usage(slot_view_.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    for (PassBlock* block : streamed_) {
        if (block->device)
            continue;
        for (const std::vector<Region>& regions : slots) {
            const Placement placement = *place(block->ranges, regions);
            std::vector<Spot>& spots = block->spots.emplace_back();
            for (std::byte* data : placement.tensors)
                spots.push_back({slot_view_.get(), data});
            block->reads.push_back(segments_of(placement));
        }
        point(*block, block->spots[0]);
    }
}

void PrefillWeights::place_in_device_slots(ggml_backend_device* device,
                                           const std::vector<std::vector<Region>>& slots,
                                           std::vector<DeviceUploader::Block>& uploads) {
    std::size_t staging_size = 0;
    for (const PassBlock* block : streamed_) {
        if (block->device == device && tier(*block) == Tier::disk)
            staging_size = std::max(staging_size, placed_size(block->ranges));
    }
    std::vector<Region> staging;
    for (std::size_t slot = 0; staging_size > 0 && slot < slots.size(); ++slot) {
        staging.push_back(allocate_host(device, staging_size, staging_.emplace_back()));
        memory_.staging_bytes += staging_size;
    }
    const auto all_sizes = sizes_in_slots(device);
    std::size_t number = 0;
    for (PassBlock* block : streamed_) {
        if (block->device != device)
            continue;
        const std::vector<FileRange>& needed = all_sizes[number++];
        DeviceUploader::Block& upload = uploads[block->stream_index];
        upload.number = block->block;
        upload.device = device;
        upload.route = tier(*block) == Tier::disk ? Route::staged : Route::from_host;
        for (std::size_t i = 0; i < needed.size(); ++i)
            upload.pieces.push_back({block->ranges[i].size, needed[i].size, {}, {}});
        for (const std::vector<Region>& regions : slots) {
            const Placement placement = *place(needed, regions);
            std::vector<Spot>& spots = block->spots.emplace_back();
            for (std::size_t i = 0; i < needed.size(); ++i) {
                spots.push_back(space_.spot(placement.tensors[i]));
                upload.pieces[i].slots.push_back(spots.back());
            }
        }
        if (upload.route == Route::staged) {
            for (const Region& memory : staging) {
                const Placement placement = *place(block->ranges, std::vector{memory});
                for (std::size_t i = 0; i < needed.size(); ++i)
                    upload.pieces[i].source.push_back(placement.tensors[i]);
                upload.staging_reads.push_back(segments_of(placement));
            }
        } else {
            for (std::size_t i = 0; i < needed.size(); ++i)
                upload.pieces[i].source.assign(slots.size(), block->sources[i]);
        }
        point(*block, block->spots[0]);
    }
}

} // namespace twofold
