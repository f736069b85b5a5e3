// Uploads through the library's public device interface.
#include "phase/device_uploader.h"

#include "error.h"

#include <ggml-backend.h>
#include <ggml.h>

#include <algorithm>
#include <utility>

namespace twofold {

// A device's copies and their events. Without `copies` everything is synchronous.
struct DeviceUploader::Device {
    struct FreeBackend {
        void operator()(ggml_backend* backend) const noexcept { ggml_backend_free(backend); }
    };
    struct FreeEvent {
        void operator()(ggml_backend_event* event) const noexcept { ggml_backend_event_free(event); }
    };
    using Event = std::unique_ptr<ggml_backend_event, FreeEvent>;

    ggml_backend_device* device = nullptr;
    ggml_backend* compute = nullptr;
    std::unique_ptr<ggml_backend, FreeBackend> copies;
    std::vector<Event> copied;   // by slot
    std::vector<Event> computed; // by slot
    std::vector<char> used;      // by slot: `computed` has been recorded; slots belong to different threads
};

DeviceUploader::DeviceUploader(std::size_t slots, bool asynchronous, OnUpload on_upload)
    : slots_(slots), asynchronous_(asynchronous), on_upload_(std::move(on_upload)), copying_(slots) {}

DeviceUploader::~DeviceUploader() {
    drain();
}

DeviceUploader::Device& DeviceUploader::side(ggml_backend_device* device, ggml_backend_sched* scheduler) {
    for (const auto& known : devices_) {
        if (known->device == device)
            return *known;
    }
    auto made = std::make_unique<Device>();
    made->device = device;
    for (int i = 0; i < ggml_backend_sched_get_n_backends(scheduler); ++i) {
        ggml_backend* backend = ggml_backend_sched_get_backend(scheduler, i);
        if (ggml_backend_get_device(backend) == device)
            made->compute = backend;
    }
    ggml_backend_dev_props facts{};
    ggml_backend_dev_get_props(device, &facts);
    if (asynchronous_ && made->compute && facts.caps.async && facts.caps.events) {
        made->copies.reset(ggml_backend_dev_init(device, nullptr));
        bool whole = made->copies != nullptr;
        for (std::size_t slot = 0; whole && slot < slots_; ++slot) {
            made->copied.emplace_back(ggml_backend_event_new(device));
            made->computed.emplace_back(ggml_backend_event_new(device));
            whole = made->copied.back() && made->computed.back();
        }
        made->used.assign(slots_, 0);
        if (!whole)
            made->copies.reset();
    }
    devices_.push_back(std::move(made));
    return *devices_.back();
}

void DeviceUploader::add(Block block, ggml_backend_sched* scheduler) {
    by_block_.push_back(block.device ? &side(block.device, scheduler) : nullptr);
    for (const UploadPiece& piece : block.pieces)
        zeros_.resize(std::max(zeros_.size(), piece.allocated - piece.size));
    blocks_.push_back(std::move(block));
}

bool DeviceUploader::asynchronous() const {
    return std::ranges::all_of(devices_, [](const auto& device) { return device->copies != nullptr; });
}

void DeviceUploader::before_compute(std::size_t block, std::size_t slot) {
    Device* device = by_block_[block];
    if (device && device->copies)
        ggml_backend_event_wait(device->compute, device->copied[slot].get());
}

void DeviceUploader::after_compute(std::size_t block, std::size_t slot) {
    Device* device = by_block_[block];
    if (!device || !device->copies)
        return;
    if (device->used[slot] != 0) // backends recycle an event's resources when it is waited for
        ggml_backend_event_synchronize(device->computed[slot].get());
    ggml_backend_event_record(device->computed[slot].get(), device->compute);
    device->used[slot] = 1;
}

void DeviceUploader::upload(std::size_t block, std::size_t slot) {
    const Block& what = blocks_[block];
    Device& device = *by_block_[block];
    if (device.copies) {
        copying_[slot] = &device;
        // Another device's blocks may have had the slot's number since; waiting for an old event is no harm.
        if (device.used[slot] != 0)
            ggml_backend_event_wait(device.copies.get(), device.computed[slot].get());
    }
    for (const UploadPiece& piece : what.pieces) {
        if (on_upload_)
            on_upload_(what.number);
        ggml_tensor target = bytes_at(piece.slots[slot], piece.allocated);
        const std::byte* source = piece.source[slot];
        const std::size_t padding = piece.allocated - piece.size;
        if (device.copies) {
            ggml_backend_tensor_set_async(device.copies.get(), &target, source, 0, piece.size);
            if (padding > 0)
                ggml_backend_tensor_set_async(device.copies.get(), &target, zeros_.data(), piece.size,
                                              padding);
        } else {
            ggml_backend_tensor_set(&target, source, 0, piece.size);
            if (padding > 0)
                ggml_backend_tensor_set(&target, zeros_.data(), piece.size, padding);
        }
    }
    if (device.copies)
        ggml_backend_event_record(device.copied[slot].get(), device.copies.get());
}

void DeviceUploader::settle(std::size_t slot) {
    if (Device* device = std::exchange(copying_[slot], nullptr))
        ggml_backend_event_synchronize(device->copied[slot].get());
}

void DeviceUploader::drain() noexcept {
    std::ranges::fill(copying_, nullptr);
    for (const auto& device : devices_) {
        if (device->copies)
            ggml_backend_synchronize(device->copies.get());
    }
}

} // namespace twofold
